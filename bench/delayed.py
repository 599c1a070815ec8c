"""Delayed sends a second, and what a delayed message costs until it is there; ours and Java's.

`send` rows: messages that are due long after the run, so that what is measured is the sending (and
putting them on the wheel). `delivered` rows: so many messages that are due at once or within a
second; rate and CPU count from the first send until the last one is visible in its own topic.
"""

import json
import subprocess
import time
from dataclasses import dataclass
from statistics import median

from tests.compat.peers import admin
from tests.compat.peers.cluster import Cluster
from tests.compat.peers.records import bound

from bench import load, peers

QUEUES = 4
SETTLE_S = 2.0
VISIBLE_S = 60.0
QUIET_S = 3.0


@dataclass(frozen=True)
class Row:
    """So many connections that send messages with one property; `count` of them, or for a time."""

    name: str
    prop: str
    conns: int = 16
    outstanding: int = 16
    count: int = 0


ROWS = (
    Row("level 18 (2 h), send 64 x 1", "DELAY=18", 64, 1),
    Row("level 18 (2 h), send 16 x 16", "DELAY=18"),
    Row("exact (1 h), send 64 x 1", "TIMER_DELAY_SEC=3600", 64, 1),
    Row("exact (1 h), send 16 x 16", "TIMER_DELAY_SEC=3600"),
    Row("level 1 (1 s), delivered", "DELAY=1", count=50_000),
    Row("exact (2 s), delivered", "TIMER_DELAY_SEC=2", count=50_000),
)


@dataclass(frozen=True)
class Figures:
    """Messages a second, and the broker's CPU for one in microseconds."""

    rate: float
    cpu_us: float
    refused: int


def _topic(row: Row) -> str:
    return "BenchDelayed" + "".join(ch for ch in row.prop if ch.isalnum())


def _loadgen(cluster: Cluster, row: Row, seconds: float) -> dict[str, float]:
    command = [str(load.build_loadgen()), "-m", "send", "-c", str(row.conns)]
    command += ["-n", str(row.outstanding), "-y", row.prop, "-T", _topic(row), "-q", str(QUEUES)]
    command += ["-p", str(cluster.broker_port), "-P", str(cluster.broker.pid)]
    command += ["-N", str(row.count)] if row.count else ["-w", "1", "-d", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def _visible(cluster: Cluster, row: Row) -> int:
    return sum(bound(cluster.broker_addr, _topic(row), n) for n in range(QUEUES))


def run(cluster: Cluster, row: Row, seconds: float) -> Figures:
    """One run; `SystemExit` when what was sent to be delivered is not there."""
    before, cpu, began = _visible(cluster, row), cluster.broker.cpu_seconds(), time.monotonic()
    sent = _loadgen(cluster, row, seconds)
    refused = int(sent["err"])
    if not row.count:
        return Figures(sent["rate"], sent["broker_us"], refused)
    wanted, deadline = int(sent["resp"]) - refused, time.monotonic() + VISIBLE_S
    while (seen := _visible(cluster, row) - before) < wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    took = time.monotonic() - began
    if seen < wanted:
        raise SystemExit(f"{wanted} messages were sent, {seen} are visible")
    return Figures(wanted / took, (cluster.broker.cpu_seconds() - cpu) * 1e6 / wanted, refused)


def table(kinds: list[str], runs: int, seconds: float) -> str:
    """A Markdown table: medians of `runs`, the brokers in turn."""
    figures: dict[tuple[str, str], list[Figures]] = {}
    with peers.clusters(kinds, sync_flush=False) as made:
        for kind, cluster in made.items():
            for row in ROWS:
                admin.create_topic(cluster.broker_addr, _topic(row), QUEUES)
            for row in ROWS[-2:]:
                run(cluster, row, seconds)
            run(cluster, ROWS[0], 15.0 if kind == "java" else 1.0)
            peers.pause(cluster)
        for row in ROWS:
            for _ in range(runs):
                for kind, cluster in made.items():
                    peers.free_page_cache()
                    peers.resume(cluster)
                    time.sleep(SETTLE_S)
                    one = run(cluster, row, seconds)
                    time.sleep(QUIET_S)  # a wheel takes over what was sent a little later
                    peers.pause(cluster)
                    figures.setdefault((row.name, kind), []).append(one)
                    print(f"{row.name:30} {kind:8} {one.rate:8.0f}/s {one.cpu_us:8.1f} us"
                          f" {one.refused} refused", flush=True)  # fmt: skip
    lines = ["| row | broker | messages/s | broker CPU us | refused |", "|---|---|---|---|---|"]
    for (name, kind), many in figures.items():
        rate, cpu = median(one.rate for one in many), median(one.cpu_us for one in many)
        refused = sum(one.refused for one in many)
        lines.append(f"| {name} | {kind} | {rate:,.0f} | {cpu:.1f} | {refused} |")
    return "\n".join(lines)
