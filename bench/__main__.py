"""`python -m bench`: the tables of docs/benchmarks.md, measured on this machine."""

import argparse
import importlib
import platform
import signal
import sys
import time
from pathlib import Path

from bench import (
    client_failover,
    delayed,
    failover,
    floor,
    footprint,
    groups,
    pop,
    recovery,
    replicated,
    rows,
    scrapes,
    signatures,
    simulated,
    throughput,
    timers,
    transactions,
)

TIMERS_OVER_S = 60.0
SIMULATED_OVER_S = 3600.0


def main() -> None:
    """Run the chosen parts and write what they gave."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parts = ["async", "sync", "pull", "footprint", "recovery"]
    parts += ["floor", "failover", "replicated", "catchup", "groups", "decode"]
    parts += ["timers", "transactions", "pop", "delayed", "simulated", "clients"]
    parts += ["signatures", "tls", "scrapes"]
    parser.add_argument("parts", nargs="*", default=parts, metavar="PART", help=" | ".join(parts))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--kills", type=int, default=11)
    parser.add_argument("--pauses", type=int, default=5, help="of masters, for clients")
    parser.add_argument("--count", type=int, default=100_000, help="of timers")
    parser.add_argument("--kill", action="store_true", help="the broker in the middle of timers")
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--peer", choices=["java", "none"], default="java")
    parser.add_argument("--out", type=Path, help="write the report to this file as well")
    args = parser.parse_args()
    for part in args.parts:
        if part not in parts:
            parser.error(f"unknown part {part!r}; use {', '.join(parts)}")
    # By default SIGTERM ends the process at once: gigabytes of logs and their servers would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    kinds = ["epochmq"] + (["java"] if args.peer == "java" else [])
    sections = [_heading(args)]
    for part in args.parts:
        sections.append(f"## {part}\n\n{_run(part, kinds, args)}")
        print(sections[-1], flush=True)
    if args.out:
        args.out.write_text("\n\n".join(sections) + "\n")


def _run(part: str, kinds: list[str], args: argparse.Namespace) -> str:
    if part in ("async", "sync", "pull"):
        table = rows.PULLS if part == "pull" else rows.SENDS
        measured = throughput.measure(kinds, table, part == "sync", args.runs, args.seconds)
        return throughput.table(measured)
    if part == "floor":
        return floor.table(args.runs, args.seconds)
    if part == "failover":
        return failover.table(kinds, args.kills)
    if part == "signatures":
        return signatures.table(kinds, signatures.SIGNATURES, args.runs, args.seconds)
    if part == "tls":
        return signatures.table(kinds, signatures.TLS, args.runs, args.seconds)
    if part == "scrapes":
        return scrapes.table(kinds, args.runs, args.seconds)
    if part == "clients":
        return client_failover.table(kinds, args.kills, args.pauses)
    if part == "replicated":
        tables = (replicated.sends(kinds, count, args.seconds) for count in (2, 3))
        return "2 replicas\n\n{}\n\n3 replicas\n\n{}".format(*tables)
    if part == "catchup":
        return replicated.catch_up(kinds, args.gib)
    if part == "groups":
        return groups.table()
    if part == "decode":
        return importlib.import_module("bench.decode").table()  # type: ignore[no-any-return]
    if part == "transactions":
        return transactions.table(kinds, args.runs, args.seconds)
    if part == "delayed":
        return delayed.table(kinds, args.runs, args.seconds)
    if part == "timers":
        return timers.table(args.count, TIMERS_OVER_S, kill=args.kill)
    if part == "simulated":
        return simulated.table(args.count, (SIMULATED_OVER_S, args.kill))
    if part == "pop":
        return pop.table(kinds, args.runs, args.seconds)
    if part == "footprint":
        return footprint.table(kinds)
    return recovery.table()


def _heading(args: argparse.Namespace) -> str:
    return (
        f"# Run of {time.strftime('%Y-%m-%d')}\n\n"
        f"`python -m bench {' '.join(args.parts)} --runs {args.runs} --seconds {args.seconds:g}`, "
        f"Python {platform.python_version()}, {platform.machine()}, Linux {platform.release()}"
    )


if __name__ == "__main__":
    main()
