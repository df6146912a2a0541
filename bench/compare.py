#!/usr/bin/env python3
"""Measures the ratios that the README states, in one run on one machine.

Each comparison takes the median of several runs, the two sides in turn, so that
a machine that slows down or speeds up does so for both. README.md beside this
file says what is compared and how to read the table.
"""

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)
MB = 1_000_000  # as `go test -bench` counts its MB/s
RATE_LINE = re.compile(r"^BenchmarkRead/file\S*\s.*?([\d.]+) MB/s", re.MULTILINE)


class Failed(Exception):
    """A comparison that cannot be made, with the reason."""


class Finished:
    """What one run of a command took and said."""

    def __init__(self, seconds, peak_bytes, output):
        self.seconds = seconds
        self.peak_bytes = peak_bytes
        self.output = output


def environment(**more):
    """This process's environment, without OTEL_*: nothing is to be sent away."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    return kept | more


def run(command, cwd=ROOT, **env):
    """Runs a command to its end; one that fails is an error with its last words."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        try:
            process = subprocess.Popen(command, cwd=cwd, env=environment(**env),
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as reason:
            raise Failed(f"{command[0]} does not start: {reason}") from reason
        # wait4 gives this child's peak memory, where getrusage gives the
        # largest of all children so far.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        output = out.read().decode(errors="replace")
        if process.returncode != 0:
            err.seek(0)
            said = (err.read().decode(errors="replace").strip() or output.strip()).splitlines()
            raise Failed(f"`{' '.join(command)}` exits {process.returncode}: {' '.join(said[-3:])}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Finished(seconds, usage.ru_maxrss * unit, output)


def alternate(runs, first, second):
    """The medians of two measurements which take turns."""
    pairs = []
    for i in range(runs):
        progress(f"  run {i + 1} of {runs}")
        pairs.append((first(), second()))
    return tuple(statistics.median(side) for side in zip(*pairs))


def progress(text):
    print(text, file=sys.stderr, flush=True)


def generate(path, *options):
    progress(f"generating {os.path.basename(path)}: {' '.join(options)}")
    run([sys.executable, os.path.join(BENCH, "generate.py"), "-o", path, *options])
    return path


class Comparisons:
    """The comparisons, on logs that are written when they are first needed."""

    def __init__(self, opts, scratch):
        self.opts = opts
        self.scratch = scratch
        self.binary = opts.provetrace
        self.logs = {}

    def log(self, name, *options):
        if name not in self.logs:
            self.logs[name] = generate(os.path.join(self.scratch, name), *options)
        with open(self.logs[name], "rb") as f:  # bring it into the page cache
            while f.read(1 << 20):
                pass
        return self.logs[name], os.path.getsize(self.logs[name]) / MB

    def pure(self):
        return self.log("pure.log", "--size", self.opts.pure_size)

    def noisy(self):
        return self.log("noisy.log", "--size", self.opts.noisy_size, "--noise", "30",
                        "--engine-lines", "--timings")

    def provetrace(self):
        if self.binary is None:
            progress("building provetrace")
            binary = os.path.join(self.scratch, "provetrace")
            run(["go", "build", "-o", binary, "."])
            self.binary = binary
        return self.binary

    def read_rate(self, log):
        """MB/s of the Go benchmark that reads and assembles a log."""
        finished = run(["go", "test", "-count=1", "-run", "^$", "-bench", "^BenchmarkRead$/file",
                        "./convert/run"], PROVETRACE_BENCH_LOG=log)
        rate = RATE_LINE.search(finished.output)
        if not rate:
            raise Failed("`go test -bench ^BenchmarkRead$/file ./convert/run` reports no MB/s")
        return float(rate.group(1))

    def analyse(self, log, *options):
        return run([sys.executable, os.path.join(BENCH, "analyse.py"), *options, log]).seconds

    def convert(self, log):
        output = self.opts.output or os.path.join(self.scratch, "spans.json")
        os.sync()  # the disk has nothing else to write then
        finished = run([self.provetrace(), "convert", log, "-o", output])
        if not self.opts.output:
            if not os.path.exists(output):
                raise Failed(f"`provetrace convert {log} -o {output}` writes no file")
            os.remove(output)
        return finished

    def read(self):
        """Reading and assembling against analyse.py --parse-only."""
        log, size = self.pure()
        ours, theirs = alternate(self.opts.runs, lambda: self.read_rate(log),
                                 lambda: size / self.analyse(log, "--parse-only"))
        return [("read and assemble", f"{size:.0f} MB pure",
                 f"{ours:.0f} MB/s", f"analyse.py --parse-only {theirs:.1f} MB/s",
                 f"{ours / theirs:.1f}x as fast")]

    def noise(self):
        """Reading a log that is mostly other lines, against grep's count of its lines."""
        log, size = self.noisy()
        grep = ["grep", "-c", "TIMELINE", log]
        ours, theirs = alternate(self.opts.runs, lambda: self.read_rate(log),
                                 lambda: size / run(grep, LC_ALL="C.UTF-8").seconds)
        return [("read a noisy log", f"{size:.0f} MB, 30 noise lines a TIMELINE line",
                 f"{ours:.0f} MB/s", f"grep -c {theirs:.0f} MB/s", f"{ours / theirs:.2f}x as fast")]

    def whole(self):
        """provetrace convert against analyse.py: each with all it does."""
        log, size = self.pure()
        self.provetrace()
        ours, theirs = alternate(self.opts.runs, lambda: self.convert(log).seconds,
                                 lambda: self.analyse(log))
        return [("convert to spans", f"{size:.0f} MB pure", f"{ours:.2f} s",
                 f"analyse.py {theirs:.2f} s", f"{theirs / ours:.2f}x as fast")]

    def report(self):
        """provetrace report against analyse.py, as text and as JSON."""
        log, size = self.pure()
        command = [self.provetrace(), "report", log]
        rows = []
        for name, options in (("report", []), ("report --format json", ["--format", "json"])):
            ours, theirs = alternate(self.opts.runs, lambda: run(command + options).seconds,
                                     lambda: self.analyse(log))
            rows.append((name, f"{size:.0f} MB pure", f"{ours:.2f} s",
                         f"analyse.py {theirs:.2f} s", f"{theirs / ours:.1f}x as fast"))
        return rows

    def memory(self):
        """Peak resident memory of provetrace convert on long logs."""
        self.provetrace()
        floor = run(["true"]).peak_bytes
        rows = []
        for name, what, options in (
            ("long.log", "1 GB pure", ("--size", "1G")),
            ("sectors.log", "100,000 sectors", ("--sectors", "100000")),
        ):
            log, size = self.log(name, *options)
            peak = self.convert(log).peak_bytes
            # A child is charged what this script held when it started it.
            least = "at most " if peak <= floor else ""
            rows.append(("peak memory of convert", f"{what}, {size:.0f} MB",
                         f"{least}{peak / MB:.0f} MB", "the log's size",
                         f"{peak / MB / size:.3f} of it"))
            os.remove(self.logs.pop(name))
        return rows


def first_line(command):
    try:
        return run(command).output.splitlines()[0]
    except (Failed, IndexError):
        return f"no {command[0]}"


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as f:
            model = next((line.split(":", 1)[1].strip() for line in f
                          if line.startswith("model name")), model)
    except OSError:
        pass
    return (f"{model}, {os.cpu_count()} cores; {first_line(['go', 'version'])};"
            f" Python {platform.python_version()}; {first_line(['grep', '--version'])}")


def main():
    chosen = {"read": Comparisons.read, "noise": Comparisons.noise, "convert": Comparisons.whole,
              "report": Comparisons.report}
    parser = argparse.ArgumentParser(
        description="Compare provetrace with a Python script and with grep.")
    parser.add_argument("--only", action="append", choices=list(chosen) + ["memory"],
                        help="make this comparison only (may be repeated)")
    parser.add_argument("--memory", action="store_true",
                        help="also measure peak memory on a 1 GB log and on 100,000 sectors")
    parser.add_argument("--runs", type=int, default=os.environ.get("RUNS", "5"),
                        help="runs of each side (default: $RUNS, else 5)")
    parser.add_argument("--pure-size", default=os.environ.get("PURE_SIZE", "200M"),
                        help="TIMELINE lines only (default: $PURE_SIZE, else 200M)")
    parser.add_argument("--noisy-size", default=os.environ.get("NOISY_SIZE", "400M"),
                        help="30 noise lines a TIMELINE line (default: $NOISY_SIZE, else 400M)")
    parser.add_argument("--scratch",
                        help="folder for the logs (default: the system's for temporary files)")
    parser.add_argument("--output", type=os.path.abspath,
                        help="where convert writes, such as /dev/null (default: a file beside the logs)")
    parser.add_argument("--provetrace", metavar="BINARY", type=os.path.abspath,
                        help="a built command (default: `go build`)")
    opts = parser.parse_args()
    if opts.runs < 1:
        parser.error("--runs must be at least 1")
    names = opts.only or list(chosen)
    chosen["memory"] = Comparisons.memory
    if opts.memory and "memory" not in names:
        names.append("memory")

    rows, missing = [], []
    scratch = tempfile.mkdtemp(prefix="provetrace-bench-", dir=opts.scratch)
    try:
        comparisons = Comparisons(opts, scratch)
        for name in names:
            progress(f"{name}: {chosen[name].__doc__}")
            try:
                rows += chosen[name](comparisons)
            except Failed as reason:
                missing.append(f"{name}: not measured: {reason}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

    print(f"{machine()}; median of {opts.runs} runs, memory from one\n")
    if rows:
        header = ("what", "log", "provetrace", "beside it", "ratio")
        table = [header, *rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(header))]
        for i, row in enumerate(table):
            print("| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |")
            if i == 0:
                print("|" + "|".join("-" * (w + 2) for w in widths) + "|")
    for line in missing:
        print(line)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
