"""Send and pull rows: ours and the peer's in turn, several times, medians."""

import time
from dataclasses import dataclass
from statistics import median

from bench import load, peers, rows
from bench.load import Figures
from bench.rows import Row

JVM_WARM_UP_S = 25.0
SETTLE_S = 2.0
"""After a pause a broker first writes out what it had no time for; that is not the row's load."""


@dataclass(frozen=True)
class Measured:
    """Medians of one row for one kind of broker."""

    row: Row
    kind: str
    rate: float
    cpu_us: float
    p50_us: float
    p99_us: float
    errors: int


def measure(
    kinds: list[str], table: tuple[Row, ...], sync_flush: bool, runs: int, seconds: float
) -> list[Measured]:
    """The rows of `table` under one flush policy; before pulls there is something to pull."""
    figures: dict[tuple[Row, str], list[Figures]] = {}
    with peers.clusters(kinds, sync_flush) as made:
        for kind, cluster in made.items():
            warm = JVM_WARM_UP_S if kind == "java" else 2.0
            port, pid = cluster.broker_port, cluster.broker.pid
            load.run(rows.WARM_UP, port, pid, warm_s=0, seconds=warm)
            if table is rows.PULLS:
                load.run(rows.FILL, port, pid, warm_s=0, seconds=rows.FILL_S)
            peers.pause(cluster)
        for row in table:
            for _ in range(runs):
                for kind, cluster in made.items():
                    if table is not rows.PULLS:  # they read what was cached
                        peers.free_page_cache()
                    peers.resume(cluster)
                    time.sleep(SETTLE_S)
                    one = load.run(
                        row, cluster.broker_port, cluster.broker.pid, warm_s=1, seconds=seconds
                    )
                    peers.pause(cluster)
                    figures.setdefault((row, kind), []).append(one)
                    print(
                        f"{row.name:28} {kind:8} {one.rate:10.0f}/s {one.cpu_us:7.2f} us",
                        flush=True,
                    )
    return [_medians(row, kind, values) for (row, kind), values in figures.items()]


def _medians(row: Row, kind: str, values: list[Figures]) -> Measured:
    return Measured(
        row,
        kind,
        median(value.rate for value in values),
        median(value.cpu_us for value in values),
        median(value.p50_us for value in values),
        median(value.p99_us for value in values),
        sum(value.errors for value in values),
    )


def table(measured: list[Measured]) -> str:
    """A Markdown table with the ratios to the peer."""
    lines = [
        "| row | EpochMQ msg/s | Java msg/s | ratio | EpochMQ CPU us | Java CPU us | ratio |"
        " p99 us (ours / Java) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by_key = {(one.row.name, one.kind): one for one in measured}
    for name in dict.fromkeys(one.row.name for one in measured):
        ours, java = by_key.get((name, "epochmq")), by_key.get((name, "java"))
        lines.append(_line(name, ours, java))
    return "\n".join(lines)


def _line(name: str, ours: Measured | None, java: Measured | None) -> str:
    if ours is None or java is None:
        one = ours or java
        assert one is not None
        rate = f"{one.rate:,.0f} ({one.kind})"
        return f"| {name} | {rate} | | | {one.cpu_us:.2f} | | | {one.p99_us:,.0f} |"
    return (
        f"| {name} | {ours.rate:,.0f} | {java.rate:,.0f} | {ours.rate / java.rate:.2f} |"
        f" {ours.cpu_us:.2f} | {java.cpu_us:.2f} | {ours.cpu_us / java.cpu_us:.2f} |"
        f" {ours.p99_us:,.0f} / {java.p99_us:,.0f} |"
    )
