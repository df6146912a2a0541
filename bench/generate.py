#!/usr/bin/env python3
"""Writes a synthetic TIMELINE log of any length, for benchmarks.

A small simulation of the engine makes it: synthesis workers that never lack a
sector, one GPU with two workers, and a lock on the device which only the
kernels hold. Every sector is finished: with --size, no sector is admitted once
that many bytes are written, and those in the pipeline run to their end. The
queue to the GPU has no bound, so CHAN_SEND and GPU_QUEUE differ only in their
name and in the order of serving.

The log is written as it is simulated: memory does not grow with its length,
and the same options and seed give the same bytes.
"""

import argparse
import heapq
import os
import random
import sys
import uuid
from collections import deque
from datetime import datetime, timezone

# The wall clock of offset 0; the half microsecond makes cutting digits off round.
EPOCH_MS = datetime(2026, 2, 18, 14, 59, 7, 123456, timezone.utc).timestamp() * 1000 + 0.0005
FIRST_SECTOR_MS = 1500.0
GPU_WORKERS = 2
SYNTHESIS_MS = (37000, 1600)  # mean and standard deviation, as all of these
PREPARE_MS = (1300, 80)  # on a CPU, before the lock
NTT_MSM_H_MS = (2500, 40)  # the kernels: 3.3 s together
BATCH_ADD_MS = (670, 25)
TAIL_MSM_MS = (130, 8)
FINISH_MS = (480, 25)  # on a CPU, after the lock
BUFFER_LINES = 4096


class Log:
    """Writes lines in the order of their times, with noise between them."""

    def __init__(self, out, noise, rng):
        self.out = out
        self.noise = noise
        self.rng = rng
        self.tails = noise_lines(rng) if noise else []
        self.lines = []
        self.bytes = 0
        self.last_ms = 0.0
        self.second = None
        self.second_text = ""

    def event(self, now, name, job, detail):
        """Writes a TIMELINE line, after its share of noise.

        The noise is spread over the time since the line before, so that its
        wall-clock times never contradict the offsets around it.
        """
        if self.noise:
            step = (now - self.last_ms) / (self.noise + 1)
            for i in range(self.noise):
                self.noise_line(self.last_ms + step * (i + 1))
        self.append(f"TIMELINE,{int(now)},{name},{job},{detail}\n")
        self.last_ms = now

    def engine(self, now, text):
        """Writes a line of the engine's own log."""
        self.append(f"{self.clock(now)}Z  INFO {text}\n")
        self.last_ms = now

    def timing(self, now, text):
        """Writes a line of the CUDA library."""
        self.append(f"CUZK_TIMING: {text}\n")
        self.last_ms = now

    def noise_line(self, now):
        timed, tail = self.tails[int(self.rng.random() * len(self.tails))]
        self.append(self.clock(now) + tail if timed else tail)

    def clock(self, now):
        second, rest = divmod(EPOCH_MS + now, 1000)
        if second != self.second:
            self.second = second
            at = datetime.fromtimestamp(second, timezone.utc)
            self.second_text = at.strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self.second_text}.{int(rest * 1000):06d}"

    def append(self, line):
        self.lines.append(line)
        self.bytes += len(line)
        if len(self.lines) >= BUFFER_LINES:
            self.flush()

    def flush(self):
        self.out.write("".join(self.lines).encode("ascii"))
        self.lines.clear()


class Pipeline:
    """The engine: what is to happen is a heap of (time, order, action, subject)."""

    def __init__(self, log, opts, rng):
        self.log = log
        self.opts = opts
        self.rng = rng
        self.agenda = []
        self.order = 0
        self.to_synthesize = deque()
        self.sectors = 0
        # The channel is first come, first served; the priority queue takes the
        # oldest job first, then the lowest partition.
        self.by_priority = opts.queue == "GPU_QUEUE"
        self.queue = []
        self.queued = 0
        self.idle_workers = deque(range(GPU_WORKERS))
        self.lock_free = 0.0

    def run(self):
        if self.opts.engine_lines:
            self.log.engine(0.4, "cuzk_daemon: cuzk-daemon starting")
            for worker in range(GPU_WORKERS):
                self.log.engine(40 + worker * 0.2, "cuzk_core::engine: pipeline GPU worker started"
                                f" worker_id={worker} gpu=0 sub_id={worker}")
        for _ in range(self.opts.synthesis_workers):
            self.start_synthesis(FIRST_SECTOR_MS)
        while self.agenda:
            now, _, action, subject = heapq.heappop(self.agenda)
            action(now, subject)
        self.log.flush()

    def at(self, when, action, subject):
        self.order += 1
        heapq.heappush(self.agenda, (when, self.order, action, subject))

    def spread(self, mean_and_deviation):
        return max(1.0, self.rng.gauss(*mean_and_deviation))

    def admit(self, now):
        """Takes in the next sector, if there is to be one."""
        if self.opts.size is not None:
            if self.log.bytes >= self.opts.size:
                return
        elif self.sectors >= self.opts.sectors:
            return
        job = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        sector = Sector(job, self.sectors, now, self.opts.partitions)
        self.sectors += 1
        self.to_synthesize.extend(Partition(sector, i) for i in range(self.opts.partitions))
        if self.opts.engine_lines:
            self.log.engine(now, f"cuzk_server::service: Prove request_id={job}"
                            " proof_kind=1 input_size=51738921")
            self.log.engine(now, "cuzk_core::engine: dispatching per-partition synthesis"
                            f" (budget-gated) job_id={job} num_partitions={self.opts.partitions}"
                            " budget_available_gib=512")

    def start_synthesis(self, now):
        """A synthesis worker is free."""
        if not self.to_synthesize:
            self.admit(now)
            if not self.to_synthesize:
                return
        part = self.to_synthesize.popleft()
        part.started = now
        self.log.event(now, "SYNTH_START", part.sector.job, f"partition={part.index}")
        self.at(now + self.spread(SYNTHESIS_MS), self.end_synthesis, part)

    def end_synthesis(self, now, part):
        job, took = part.sector.job, int(now - part.started)
        self.log.event(now, "SYNTH_END", job, f"partition={part.index},synth_ms={took}")
        # The worker takes its next partition while the queue event is printed:
        # the two lines come in either order.
        worker_first = self.rng.random() < 0.5
        if worker_first:
            self.start_synthesis(now)
        if self.opts.engine_lines:
            self.log.engine(now, "cuzk_core::engine: partition synthesis complete, pushing to GPU"
                            f" queue job_id={job} partition={part.index} synth_ms={took}")
        self.log.event(now, self.opts.queue, job, f"partition={part.index}")
        self.queued += 1
        key = (part.sector.index, part.index) if self.by_priority else (self.queued,)
        heapq.heappush(self.queue, (key, part))
        self.pick_up(now)
        if not worker_first:
            self.start_synthesis(now)

    def pick_up(self, now):
        """Gives the next partition to an idle GPU worker, if there are both."""
        if not self.queue or not self.idle_workers:
            return
        _, part = heapq.heappop(self.queue)
        part.worker = self.idle_workers.popleft()
        part.started = now
        detail = f"worker={part.worker},partition={part.index}"
        self.log.event(now, "GPU_PICKUP", part.sector.job, detail)
        self.log.event(now, "GPU_START", part.sector.job, detail)
        self.at(now + self.spread(PREPARE_MS), self.ask_for_lock, part)

    def ask_for_lock(self, now, part):
        locked = max(now, self.lock_free)
        ntt, add, tail = (self.spread(d) for d in (NTT_MSM_H_MS, BATCH_ADD_MS, TAIL_MSM_MS))
        self.lock_free = locked + ntt + add + tail
        if self.opts.timings:
            total = int(ntt + add + tail)
            for when, text in (
                (locked, f"pre_lock_cpu_ms={int(now - part.started)}"
                         f" mutex_wait_ms={int(locked - now)}"),
                (locked + ntt, f"gpu_tid=0 ntt_msm_h_ms={int(ntt)}"),
                (locked + ntt, "gpu_tid=0 barrier_wait_ms=0"),
                (locked + ntt + add, f"gpu_tid=0 batch_add_ms={int(add)}"),
                (self.lock_free, f"gpu_tid=0 tail_msm_ms={int(tail)} gpu_total_ms={total}"),
                (self.lock_free, f"mutex_held_ms={total}"
                                 f" total_start_fn_ms={int(self.lock_free - part.started)}"),
            ):
                self.at(when, self.log.timing, text)
        self.at(self.lock_free + self.spread(FINISH_MS), self.end_proving, part)

    def end_proving(self, now, part):
        sector = part.sector
        self.log.event(now, "GPU_END", sector.job, f"worker={part.worker},partition={part.index},"
                       f"gpu_ms={int(now - part.started)}")
        sector.left -= 1
        if sector.left == 0 and self.opts.engine_lines:
            self.log.engine(now, "cuzk_core::engine: proof completed successfully (pipeline)"
                            f" proof_len={192 * self.opts.partitions}"
                            f" total_ms={int(now - sector.admitted)}")
        self.idle_workers.append(part.worker)
        self.pick_up(now)


class Sector:
    __slots__ = ("job", "index", "admitted", "left")

    def __init__(self, job, index, admitted, partitions):
        self.job = job
        self.index = index
        self.admitted = admitted
        self.left = partitions


class Partition:
    __slots__ = ("sector", "index", "started", "worker")

    def __init__(self, sector, index):
        self.sector = sector
        self.index = index


def noise_lines(rng, count=4096):
    """Lines that a long-running prover prints beside its timeline.

    Each is a pair: whether the wall clock goes before it, and the rest.
    """
    def hexes(n):
        return f"{rng.getrandbits(4 * n):0{n}x}"

    def gib(top):
        return f"{rng.uniform(1, top):.1f}"

    def peer():
        alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
        return "12D3KooW" + "".join(rng.choices(alphabet, k=44))

    def address():
        return f"/ip4/{rng.randint(11, 200)}.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}"

    n = rng.randint
    engine = "Z  INFO cuzk_core::"
    kinds = [
        # The engine and its daemon (Rust).
        lambda: (True, f"{engine}memory: budget acquired bytes={n(1, 16) << 30} in_use_gib={gib(500)} limit_gib=512 waiters={n(0, 9)}"),
        lambda: (True, f"{engine}memory: budget released bytes={n(1, 16) << 30} in_use_gib={gib(500)} limit_gib=512"),
        lambda: (True, f"{engine}srs_manager: SRS already resident circuit_id=porep-32g refs={n(1, 20)} pinned_gib={gib(48)}"),
        lambda: (True, f"{engine}pipeline: witness generated circuit={n(0, 9)} aux={n(120, 131)}{n(100000, 999999)} inputs={n(20, 40)} elapsed_ms={n(20000, 30000)}"),
        lambda: (True, f"{engine}pipeline: constraints evaluated a_density={n(10**7, 10**8)} b_density={n(10**7, 10**8)} elapsed_ms={n(6000, 12000)}"),
        lambda: (True, f"{engine}pce: pre-compiled circuit loaded from cache constraints={n(130 * 10**6, 131 * 10**6)} nnz_gib={gib(26)}"),
        lambda: (True, f"{engine}scheduler: queue state ready={n(0, 20)} synthesizing={n(1, 12)} proving={n(0, 2)} oldest_wait_ms={n(0, 40000)}"),
        lambda: (True, f"{engine}memory: pool trimmed freed_gib={gib(30)}"),
        lambda: (True, f"{engine}srs_manager: SRS released refs={n(0, 19)}"),
        lambda: (True, f"{engine}scheduler: worker parked worker_id={n(0, 9)}"),
        lambda: (True, f"Z  INFO cuzk_server::service: status polled client={address()[5:]}:{n(1025, 65535)} active_jobs={n(1, 9)} latency_us={n(40, 4000)}"),
        lambda: (True, f"Z DEBUG h2::codec::framed_read: received frame=WindowUpdate {{ stream_id: StreamId({n(1, 9999)}), size_increment: {n(1, 65535)} }}"),
        lambda: (True, f"Z  WARN cuzk_core::memory: allocation near budget, eviction considered candidate=pce/{hexes(8)} size_gib={gib(26)}"),
        # The CUDA library.
        lambda: (False, f"CUZK: pinned pool gpu=0 reserved={n(1, 64)} GiB in_use={gib(60)} GiB largest_free={gib(20)} GiB fragmentation={n(1, 30)}%"),
        lambda: (False, f"[cuda] stream {n(0, 7)}: H2D {gib(17)} GiB in {n(300, 900)} ms ({gib(26)} GiB/s), event 0x{hexes(12)} recorded"),
        lambda: (False, f"msm: npoints={n(10**7, 13 * 10**7)} wbits={n(13, 17)} nwins={n(15, 20)} batches={n(1, 8)} d_scalars=0x{hexes(12)} d_buckets=0x{hexes(12)}"),
        lambda: (False, f"CUZK: evicted {n(1, 900)} blocks, in_use={gib(60)} GiB"),
        # The storage node next door (Go).
        lambda: (True, f"Z\tWARN\tnet/identify\tidentify/id.go:{n(200, 500)}\tfailed to identify {peer()}: stream reset"),
        lambda: (True, f"Z\tWARN\tswarm2\tswarm/swarm_dial.go:{n(100, 400)}\tdial to {address()}/tcp/{n(1025, 65535)} failed: i/o timeout"),
        lambda: (True, f"Z\tINFO\tharmonytask\tharmonytask/task_type_handler.go:{n(50, 300)}\tBeginning work on Task\t{{\"id\": {n(10**5, 10**7)}, \"from\": \"poller\"}}"),
    ]
    lines = [rng.choice(kinds)() for _ in range(count)]
    return [(timed, rest + "\n") for timed, rest in lines]


def byte_count(text):
    """Reads a size such as 500000, 64K, 200M or 1G (powers of ten)."""
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    try:
        if text[-1:].upper() in units:
            return int(float(text[:-1]) * units[text[-1].upper()])
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: use bytes, or K, M or G as in 200M")


def main():
    parser = argparse.ArgumentParser(
        description="Write a synthetic TIMELINE log.", epilog="Sizes are in powers of ten.")
    parser.add_argument("-o", "--output", help="file to write (default: stdout)")
    parser.add_argument("--sectors", type=int, default=100, help="sectors to prove (default: 100)")
    parser.add_argument("--size", type=byte_count,
                        help="instead of --sectors: admit sectors until this many bytes are written")
    parser.add_argument("--partitions", type=int, default=10, help="partitions a sector (default: 10)")
    parser.add_argument("--synthesis-workers", type=int, default=10, help="default: 10")
    parser.add_argument("--queue", choices=["CHAN_SEND", "GPU_QUEUE"], default="GPU_QUEUE",
                        help="the event when a partition is offered to the GPU (default: GPU_QUEUE)")
    parser.add_argument("--noise", type=int, default=0, metavar="K",
                        help="noise lines before each TIMELINE line (default: 0)")
    parser.add_argument("--timings", action="store_true", help="CUZK_TIMING lines of each partition")
    parser.add_argument("--engine-lines", action="store_true", help="the engine's own log lines")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    opts = parser.parse_args()
    for name in ("sectors", "partitions", "synthesis_workers"):
        if getattr(opts, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if opts.noise < 0:
        parser.error("--noise must not be negative")

    rng = random.Random(opts.seed)
    out = open(opts.output, "wb") if opts.output else sys.stdout.buffer
    try:
        Pipeline(Log(out, opts.noise, rng), opts, rng).run()
        out.flush()
    except BrokenPipeError:
        # The reader has what it wanted; keep Python from flushing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
