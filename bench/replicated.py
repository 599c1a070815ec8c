"""Sends that wait for every replica, and replicas that catch up, beside Java's group.

Groups run one after the other: a stopped group would elect a new master when it goes on.
"""

import json
import shutil
import time
from dataclasses import dataclass
from statistics import median

from tests.compat.peers import wire
from tests.compat.peers.group import JAVA, OURS, Group, Server
from tests.compat.peers.java import BENCH_FLAGS
from tests.compat.peers.process import wait_until

from bench import copy_floor, load, peers
from bench.rows import Row

ROWS = (
    Row("send 1 x 1", "send", 1),
    Row("send 16 x 1", "send", 16),
    Row("send 64 x 1", "send", 64),
    Row("send 16 x 16", "send", 16, 16),
)
WARM_UP = Row("warm-up", "send", 16)
ROUNDS = 2
CATCH_UP_S = 300.0
HEAP = ("-Xms1g", "-Xmx1g")
_GIB = 1 << 30
_RUNTIME_INFO = 28
_KINDS = {"epochmq": OURS, "java": JAVA}
_CONFIG: dict[str, str | int | bool] = {
    "flushDiskType": "ASYNC_FLUSH",
    "allAckInSyncStateSet": True,
    "mappedFileSizeCommitLog": _GIB,
    "defaultTopicQueueNums": 4,
    # A benchmark may not be refused for a slow page cache or a queue that is full.
    "osPageCacheBusyTimeOutMills": 30_000,
    "sendThreadPoolQueueCapacity": 100_000,
    "waitTimeMillsInSendQueue": 30_000,
}


@dataclass(frozen=True)
class Sent:
    """One row of one round."""

    rate: float
    p50_us: float
    p99_us: float
    cpu_us: float
    """Of all brokers of the group, a message."""
    errors: int


def group_of(kind: str, replicas: int) -> Group:
    """A group with the defaults of production."""
    config = dict(_CONFIG)
    if kind == "epochmq":
        for key in ("osPageCacheBusyTimeOutMills", "sendThreadPoolQueueCapacity"):
            del config[key]
        del config["waitTimeMillsInSendQueue"]
    return Group(
        _KINDS[kind],
        _KINDS[kind],
        replicas=replicas,
        broker_config=config,
        heap=HEAP,
        flags=[flag for flag in BENCH_FLAGS if "AlwaysPreTouch" not in flag],
    )


def sends(kinds: list[str], replicas: int, seconds: float) -> str:
    """A table of sends that all of `replicas` must hold."""
    found: dict[tuple[str, str], list[Sent]] = {}
    for _ in range(ROUNDS):
        for kind in kinds:
            with group_of(kind, replicas) as group:
                master = _master(group)
                load.run(WARM_UP, master.port, master.process.pid, warm_s=0, seconds=12)
                for row in ROWS:
                    sent = _measure(group, master, row, seconds)
                    found.setdefault((row.name, kind), []).append(sent)
                    print(f"{replicas} replicas {row.name:14} {kind:8} {sent}", flush=True)
    lines = [
        "| row | EpochMQ msg/s | Java msg/s | ratio | p50 us | p99 us | brokers' CPU us |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row.name, found) for row in ROWS]
    return "\n".join(lines)


def _master(group: Group) -> Server:
    master = group.master()
    assert master is not None
    return master


def _measure(group: Group, master: Server, row: Row, seconds: float) -> Sent:
    before = _cpu(group)
    figures = load.run(row, master.port, master.process.pid, warm_s=1, seconds=seconds)
    cpu_us = (_cpu(group) - before) * 1e6 / max(1.0, figures.rate * (seconds + 1))
    return Sent(figures.rate, figures.p50_us, figures.p99_us, cpu_us, figures.errors)


def _cpu(group: Group) -> float:
    return sum(server.process.cpu_seconds() for server in group.brokers)


def _line(name: str, found: dict[tuple[str, str], list[Sent]]) -> str:
    ours, java = found.get((name, "epochmq"), []), found.get((name, "java"), [])

    def of(values: list[Sent], field: str) -> float:
        return median(getattr(value, field) for value in values) if values else float("nan")

    cells = [f"{of(ours, 'rate'):,.0f}", f"{of(java, 'rate'):,.0f}"]
    cells.append(f"{of(ours, 'rate') / of(java, 'rate'):.2f}")
    for field in ("p50_us", "p99_us"):
        cells.append(f"{of(ours, field):,.0f} / {of(java, field):,.0f}")
    cells.append(f"{of(ours, 'cpu_us'):.1f} / {of(java, 'cpu_us'):.1f}")
    return f"| {name} | {' | '.join(cells)} |"


def catch_up(kinds: list[str], gib: float) -> str:
    """How fast an empty replica takes over `gib` GiB: MB/s, and CPU seconds a GB of both ends."""
    lines = ["| | GiB | seconds | MB/s | master CPU s/GB | follower CPU s/GB |"]
    lines.append("|---|---|---|---|---|---|")
    # The floor before and after each: what a page costs depends on whether the virtual machine
    # still has it from the run before.
    size = int(gib * _GIB)
    lines.append(_floor(size))
    for kind in kinds:
        lines += [_catch_up(kind, size), _floor(size)]
        print("\n".join(lines[-3:]), flush=True)
    return "\n".join(lines)


def _floor(size: int) -> str:
    peers.free_page_cache()
    return copy_floor.row(size)


def _catch_up(kind: str, size: int) -> str:
    peers.free_page_cache()
    with group_of(kind, 2) as group:
        master = _master(group)
        (follower,) = (server for server in group.brokers if server is not master)
        follower.process.kill9()
        group.wait_ready()
        _fill(master, size)
        held = _log_bytes(master)
        before = master.process.cpu_seconds()
        began = time.monotonic()
        _empty(follower)
        follower.start()
        wait_until(lambda: group.is_ready(), CATCH_UP_S, "the follower caught up")
        seconds = time.monotonic() - began
        gigabytes = held / 1e9
        at_master = (master.process.cpu_seconds() - before) / gigabytes
        at_follower = follower.process.cpu_seconds() / gigabytes
        return (
            f"| {kind} | {held / _GIB:.1f} | {seconds:.1f} | {held / 1e6 / seconds:,.0f}"
            f" | {at_master:.2f} | {at_follower:.2f} |"
        )


def _fill(master: Server, size: int) -> None:
    row = Row("fill", "send", 16, 16, size=16 * 1024)
    while _log_bytes(master) < size:
        load.run(row, master.port, master.process.pid, warm_s=0, seconds=2)


def _log_bytes(server: Server) -> int:
    """Where its log ends; files are made ahead, so their sizes say nothing."""
    found = wire.call(server.address, _RUNTIME_INFO, {})
    return int(json.loads(found.body)["table"]["commitLogMaxOffset"])


def _empty(server: Server) -> None:
    """Take the log away, keep the identity: the replica a disk was lost of."""
    for name in ("commitlog", "consumequeue", "index", "epochFileCheckpoint"):
        path = server.root / "store" / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name in ("epochFileCheckpoint.bak", "checkpoint", "abort"):
        (server.root / "store" / name).unlink(missing_ok=True)
