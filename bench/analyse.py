#!/usr/bin/env python3
"""Analyses a TIMELINE log the way a script beside a benchmark does.

This is the peer that provetrace is measured against: it reads line by line,
keeps jobs[job][partition][event] = offset in milliseconds, and prints figures
and an ASCII waterfall. It is written to be read, neither slowed down nor tuned.
It takes one run on one GPU, a clean log, and each job proved once.
"""

import argparse
import json
import sys

MARKER = "TIMELINE,"
QUEUE_EVENTS = ("GPU_QUEUE", "CHAN_SEND")


def parse(lines):
    """Returns jobs[job][partition][event] = offset, and the counts of lines.

    A whole-sector job has the one partition None. The worker and the engine's
    own durations stand beside the events, under their keys in the log.
    """
    jobs = {}
    counts = {"lines": 0, "events": 0, "malformed": 0}
    for line in lines:
        counts["lines"] += 1
        start = line.find(MARKER)
        if start < 0:
            continue
        fields = line[start:].rstrip().split(",")
        try:
            offset, event, job = int(fields[1]), fields[2], fields[3]
            details = {}
            for field in fields[4:]:
                key, _, value = field.partition("=")
                details[key] = value
            partition = int(details["partition"]) if "partition" in details else None
            events = jobs.setdefault(job, {}).setdefault(partition, {})
            events[event] = offset
            for key in ("worker", "synth_ms", "gpu_ms"):
                if key in details:
                    events[key] = int(details[key])
        except (IndexError, ValueError):
            counts["malformed"] += 1
            continue
        counts["events"] += 1
    return jobs, counts


def queued_at(events):
    for name in QUEUE_EVENTS:
        if name in events:
            return events[name]
    return None


def interval(start, end):
    return None if start is None or end is None else (start, end)


def intervals(events):
    """The (start, end) of each phase of a partition that is complete."""
    phases = {
        "synthesis": interval(events.get("SYNTH_START"), events.get("SYNTH_END")),
        "queue wait": interval(queued_at(events), events.get("GPU_PICKUP")),
        "gpu prove": interval(events.get("GPU_START"), events.get("GPU_END")),
    }
    return {name: both for name, both in phases.items() if both}


def union(pairs):
    """Merges intervals which overlap or touch."""
    merged = []
    for start, end in sorted(pairs):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def figures(jobs):
    """The figures of the run, as provetrace defines them; None if no proof ended."""
    sectors = []
    durations = {"synthesis": [], "queue wait": [], "gpu prove": []}
    gpu = []
    for job, partitions in jobs.items():
        phases = {p: intervals(events) for p, events in partitions.items()}
        for phase in phases.values():
            if "gpu prove" in phase:
                gpu.append(phase["gpu prove"])
                for name, (start, end) in phase.items():
                    durations[name].append(end - start)
        if all("gpu prove" in phase for phase in phases.values()):
            sectors.append({
                "job": job,
                "synth_ms": sum(p["synthesis"][1] - p["synthesis"][0]
                                for p in phases.values() if "synthesis" in p),
                "queue_ms": sum(p["queue wait"][1] - p["queue wait"][0]
                                for p in phases.values() if "queue wait" in p),
                "gpu_ms": sum(p["gpu prove"][1] - p["gpu prove"][0] for p in phases.values()),
                "first_synth": min(e["SYNTH_START"] for e in partitions.values()
                                   if "SYNTH_START" in e),
                "first_ready": min(e["SYNTH_END"] for e in partitions.values()
                                   if "SYNTH_END" in e),
                "first_gpu": min(p["gpu prove"][0] for p in phases.values()),
                "last_gpu": max(p["gpu prove"][1] for p in phases.values()),
            })
    if not sectors:
        return None
    sectors.sort(key=lambda s: s["first_gpu"])

    busy = union(gpu)
    busy_ms = sum(end - start for start, end in busy)
    window_ms = busy[-1][1] - busy[0][0]
    began = min(e["SYNTH_START"] for ps in jobs.values() for e in ps.values() if "SYNTH_START" in e)
    makespan_ms = busy[-1][1] - began
    ends = sorted(s["last_gpu"] for s in sectors)
    return {
        "makespan_ms": makespan_ms,
        "cold_start_ms": busy[0][0] - began,
        "proofs": len(sectors),
        "s_per_proof_overall": makespan_ms / len(sectors) / 1000,
        "s_per_proof_steady":
            (ends[-1] - ends[0]) / (len(ends) - 1) / 1000 if len(ends) > 1 else None,
        "gpu": {"0": {
            "busy_ms": busy_ms,
            "active_window_ms": window_ms,
            "utilization_active": busy_ms / window_ms,
            "utilization_overall": busy_ms / makespan_ms,
            "idle_gaps_ms": [after[0] - before[1] for before, after in zip(busy, busy[1:])],
            "sum_of_spans_ms": sum(end - start for start, end in gpu),
        }},
        "transitions": [{
            "from": before["job"],
            "to": after["job"],
            "cross_sector_gap_ms": after["first_gpu"] - before["last_gpu"],
            "synthesis_readiness_ms": after["first_ready"] - before["last_gpu"],
        } for before, after in zip(sectors, sectors[1:])],
        "phases": {name: {
            "n": len(values),
            "mean_ms": sum(values) / len(values),
            "min_ms": min(values),
            "max_ms": max(values),
        } for name, values in durations.items() if values},
        "sectors": sectors,
    }


def print_summary(run, rows):
    gpu = run["gpu"]["0"]
    gaps = gpu["idle_gaps_ms"]
    steady = run["s_per_proof_steady"]
    print(f"proofs {run['proofs']}   makespan {run['makespan_ms'] / 1000:.1f} s"
          f"   cold start {run['cold_start_ms'] / 1000:.1f} s")
    print(f"seconds per proof: {run['s_per_proof_overall']:.2f} overall"
          + (f", {steady:.2f} steady" if steady is not None else ""))
    print(f"GPU busy {gpu['busy_ms'] / 1000:.1f} s (intervals sum to"
          f" {gpu['sum_of_spans_ms'] / 1000:.1f} s)   utilization"
          f" {gpu['utilization_active']:.1%} active, {gpu['utilization_overall']:.1%} overall")
    print(f"idle gaps: {len(gaps)}, {sum(gaps) / 1000:.1f} s in all"
          + (f", longest {max(gaps)} ms" if gaps else ""))
    for name, phase in run["phases"].items():
        print(f"{name:<10}  n {phase['n']}   mean {phase['mean_ms']:.0f} ms"
              f"   min {phase['min_ms']}   max {phase['max_ms']}")

    print(f"\n{'sector':<10}{'synthesis s':>12}{'queue s':>10}{'GPU s':>8}{'gap ms':>9}{'ready ms':>10}")
    transitions = [None] + run["transitions"]
    for sector, step in list(zip(run["sectors"], transitions))[:rows]:
        print(f"{sector['job'][:8]:<10}{sector['synth_ms'] / 1000:>12.1f}"
              f"{sector['queue_ms'] / 1000:>10.1f}{sector['gpu_ms'] / 1000:>8.1f}"
              + (f"{step['cross_sector_gap_ms']:>9}{step['synthesis_readiness_ms']:>10}"
                 if step else ""))
    if run["proofs"] > rows:
        print(f"... and {run['proofs'] - rows} more")


def print_waterfall(jobs, run, rows, width=100):
    """Draws a row a partition: - synthesis, . queue, # GPU."""
    shown = run["sectors"][:rows]
    start = min(s["first_synth"] for s in shown)
    end = max(s["last_gpu"] for s in shown)
    scale = width / max(1, end - start)
    marks = {"synthesis": "-", "queue wait": ".", "gpu prove": "#"}
    print(f"\nwaterfall, {start} to {end} ms:  - synthesis  . queue  # GPU")
    for sector in shown:
        for partition, events in sorted(jobs[sector["job"]].items(), key=lambda item: item[0] or 0):
            row = [" "] * (width + 1)
            for name, (begin, finish) in intervals(events).items():
                for x in range(int((begin - start) * scale), int((finish - start) * scale) + 1):
                    row[x] = marks[name]
            label = "all" if partition is None else f"P{partition}"
            print(f"{sector['job'][:8]} {label:>3} |{''.join(row)}|")


def main():
    parser = argparse.ArgumentParser(description="Analyse a TIMELINE log of one GPU.")
    parser.add_argument("log")
    parser.add_argument("--parse-only", action="store_true",
                        help="fill the dictionaries and print their counts")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rows", type=int, default=3, help="sectors to list and draw (default: 3)")
    opts = parser.parse_args()

    with open(opts.log, encoding="utf-8", errors="replace") as lines:
        jobs, counts = parse(lines)
    partitions = sum(len(ps) for ps in jobs.values())
    counted = (f"{counts['lines']} lines, {counts['events']} events, {counts['malformed']} malformed,"
               f" {len(jobs)} jobs, {partitions} partitions")
    if opts.parse_only:
        print(counted)
        return 0
    run = figures(jobs)
    if run is None:
        print(f"{counted}: no finished proof", file=sys.stderr)
        return 1
    if opts.json:
        json.dump(run, sys.stdout, indent=1)
        print()
        return 0
    print(counted)
    print_summary(run, opts.rows)
    print_waterfall(jobs, run, opts.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
