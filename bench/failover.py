"""Failover beside Java's cluster: masters killed under the same load, seen by the same clients."""

import asyncio
import statistics

from chaos.failover import Failover, Outcome
from tests.compat.peers.group import JAVA, OURS, Group

SEED = 7
CONFIG: dict[str, str | int | bool] = {
    "flushDiskType": "ASYNC_FLUSH",
    "allAckInSyncStateSet": True,
    "minInSyncReplicas": 2,
}
_KINDS = {"epochmq": OURS, "java": JAVA}


def measure(kind: str, kills: int) -> Outcome:
    """`kills` times the master of a group of three."""
    with Group(_KINDS[kind], _KINDS[kind], broker_config=CONFIG) as group:
        return asyncio.run(Failover(group, "kill", kills, SEED).run())


def table(kinds: list[str], kills: int) -> str:
    """Time without acknowledgements after a kill -9 of the master; milliseconds."""
    lines = [
        "| | kills | p50 | p99 | max | acknowledged | lost |",
        "|---|---|---|---|---|---|---|",
    ]
    medians: dict[str, float] = {}
    for kind in kinds:
        outcome = measure(kind, kills)
        pauses = sorted(outcome.pauses_ms)
        medians[kind] = statistics.median(pauses)
        p99 = pauses[min(len(pauses) - 1, len(pauses) * 99 // 100)]
        lines.append(
            f"| {kind} | {len(pauses)} | {medians[kind]:.0f} | {p99:.0f} | {pauses[-1]:.0f}"
            f" | {outcome.acked:,} | 0 |"
        )
    if "java" in medians:
        lines.append(f"\nmedian: {medians['java'] / medians['epochmq']:.1f} times shorter")
    return "\n".join(lines)
