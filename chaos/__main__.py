"""`python -m chaos`: a group of real processes, faults, a verdict; exit code 1 for a loss."""

import argparse
import asyncio
import statistics
import sys
from importlib import import_module

from sim.kernel.violation import Violation
from tests.compat.peers.group import Group

from chaos.failover import FAULTS, SHIMMED, Failover, Outcome
from chaos.figures import percentile
from chaos.shim import Shim, build

OTHER_DRILLS = {
    "spark-kill": "chaos.spark_kill",
    "lake-kill": "chaos.lake_kill",
    "unconfirmed": "chaos.unconfirmed",
    "acting": "chaos.acting",
    "members": "chaos.members",
}
"""Drills with options of their own, by name; some need packages that nothing else here needs."""


def main() -> None:
    """Run one kind of fault so many times, or another drill."""
    if sys.argv[1:] and sys.argv[1] in OTHER_DRILLS:
        import_module(OTHER_DRILLS[sys.argv[1]]).main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sync-flush", action="store_true")
    args = parser.parse_args()
    config = {
        "minInSyncReplicas": 2 if args.replicas > 2 else 1,
        "flushDiskType": "SYNC_FLUSH" if args.sync_flush else "ASYNC_FLUSH",
    }
    made = Group(replicas=args.replicas, broker_config=config)
    shims = shims_for(made, args.fault)
    with made as group:
        try:
            outcome = asyncio.run(Failover(group, args.fault, args.count, args.seed, shims).run())
        except Violation as violation:
            sys.exit(f"VIOLATION {violation}; replay: python -m chaos {' '.join(sys.argv[1:])}")
    print(report(outcome))


def shims_for(group: Group, fault: str) -> list[Shim]:
    """What the fault needs around each broker of a group that has not started."""
    if fault not in SHIMMED:
        return []
    library = build(group.root)
    return [Shim(library, server) for server in group.brokers]


def report(outcome: Outcome) -> str:
    """The run on one page."""
    pauses = sorted(outcome.pauses_ms)
    return "\n".join(
        (
            f"{outcome.fault}: {len(pauses)} faults in {outcome.seconds:.0f} s",
            f"acknowledged {outcome.acked:,}, unknown {outcome.unknown:,},"
            f" stored {outcome.stored:,}: 0 lost, 0 invented",
            f"replicas byte-identical over {outcome.compared_bytes:,} bytes",
            f"time without acknowledgement: p50 {percentile(pauses, 50):.0f} ms,"
            f" p99 {percentile(pauses, 99):.0f} ms, max {pauses[-1]:.0f} ms",
            f"until the set was whole again: median {statistics.median(outcome.whole_ms):.0f} ms",
            "errors clients saw: "
            + "; ".join(f"{n} x {text}" for text, n in sorted(outcome.errors.items())),
        )
    )


if __name__ == "__main__":
    main()
