"""What clients with their default settings see of a failover, with a relay, without, and Java's.

One group of three brokers, one topic for each client, with a producer and a consumer in processes
of their own. The master is killed (`kill -9`) or paused (SIGSTOP) again and again. The figures are
the longest time without an acknowledged send, and without a consumed message, after each of them.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compat.clients import CPP, GO, JAVA_4, JAVA_5, NODE, OURS, Client
from tests.compat.drivers.driver import Driver, Event
from tests.compat.peers import admin
from tests.compat.peers.cache import UnavailableError
from tests.compat.peers.group import JAVA, Group
from tests.compat.peers.group import OURS as OUR_SERVERS

PAUSE_MS = 20
SEND_TIMEOUT_MS = 3_000
START_S = 90.0
KILL_EVERY_S = 34.0
RESTART_AFTER_S = 4.0
PAUSE_EVERY_S = 30.0
PAUSED_S = 7.0
DRAIN_S = 120.0
SHARDS = 3


@dataclass(frozen=True)
class Pair:
    """A client, and how it sends and consumes."""

    client: Client
    ordered: bool = False
    pop: bool = False

    @property
    def name(self) -> str:
        return self.client.name + ("Ordered" if self.ordered else "") + ("Pop" if self.pop else "")


PAIRS = (
    Pair(JAVA_5),
    Pair(JAVA_5, ordered=True),
    Pair(JAVA_5, pop=True),
    Pair(JAVA_4),
    Pair(GO),
    Pair(CPP),
    Pair(NODE),
    Pair(OURS),
    Pair(OURS, ordered=True),
)


@dataclass
class Seen:
    """What one pair saw: gaps in ms for each fault, and totals."""

    send_ms: list[float] = field(default_factory=list)
    consume_ms: list[float] = field(default_factory=list)
    acked: int = 0
    failed: int = 0
    lost: int = 0
    again: int = 0


class Running:
    """A pair's two processes."""

    def __init__(self, pair: Pair, group: Group, stop: Path) -> None:
        self.pair = pair
        self.seen = Seen()
        self._group = group
        self._stop = stop
        self._topic = f"clients_{pair.name}"
        self._drivers = ExitStack()
        self.failure = ""

    def start(self) -> None:
        """Start the consumer and the producer, and wait until messages flow."""
        pair, namesrv = self.pair, self._group.namesrv_addr
        master = self._group.master()
        assert master is not None
        admin.create_topic(master.address, self._topic)
        consumers = admin.set_group(master.address, f"G_{self._topic}")
        self.consumer, self.sender = (
            self._drivers.enter_context(pair.client.build()) for _ in range(2)
        )
        how: dict[str, Any] = {"count": 0, "timeout_ms": 86_400_000, "poll_ms": 0}
        if pair.pop:
            how["pop"] = True
        self.consumer.start(
            "push", namesrv, self._topic, group=consumers, order=pair.ordered, **how
        )
        self.sender.start(
            "send",
            namesrv,
            self._topic,
            kind="ordered" if pair.ordered else "sync",
            until=self._stop,
            pause_ms=PAUSE_MS,
            timeout_ms=SEND_TIMEOUT_MS,
            poll_ms=0,
        )
        self.sender.wait_event(is_acked, START_S)
        self.consumer.wait_event(is_received, START_S)

    def note_fault(self, since: float, until: float) -> None:
        """Note the longest gaps of a fault between two times (monotonic s)."""
        self.sender.skip()
        self.consumer.skip()
        self.seen.send_ms.append(longest_gap_ms(self.sender, is_acked, since, until))
        self.seen.consume_ms.append(longest_gap_ms(self.consumer, is_received, since, until))

    def conclude(self) -> None:
        """Count what was acknowledged and consumed; called after the sender was told to stop."""
        sent = self.sender.finish(60).events
        acked = {event["body"] for event in sent if is_acked(event)}
        self.seen.acked = len(acked)
        self.seen.failed = sum(not is_acked(event) for event in sent)
        deadline = time.monotonic() + DRAIN_S
        while True:
            self.consumer.skip()
            bodies = [event["body"] for event in self.consumer.seen if is_received(event)]
            missing = acked - set(bodies)
            if not missing or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        self.seen.lost = len(missing)
        self.seen.again = len(bodies) - len(set(bodies))

    def close(self) -> None:
        self._drivers.close()


def is_acked(event: Event) -> bool:
    return event["event"] == "sent" and event["status"] == "SEND_OK"


def is_received(event: Event) -> bool:
    return bool(event["event"] == "received")


def longest_gap_ms(driver: Driver, wanted: Any, since: float, until: float) -> float:
    """Return the longest time between two wanted events, from just before `since` to `until`."""
    times = [event["at"] for event in driver.seen if wanted(event) and event["at"] <= until]
    before = [at for at in times if at < since][-1:] or [since]
    marks = [*before, *(at for at in times if at >= since), until]
    return max(later - earlier for earlier, later in itertools.pairwise(marks)) * 1000


def measure(kind: str, *, relay: bool, kills: int, pauses: int) -> dict[str, Seen]:
    """Run all pairs on one group, with `kills` kills and `pauses` pauses of the master."""
    config = {"minInSyncReplicas": 2, "flushDiskType": "ASYNC_FLUSH"}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        group = stack.enter_context(Group(kind, kind, broker_config=config, relay=relay))
        stop = Path(folder, "stop")
        pairs = [Running(pair, group, stop) for pair in PAIRS]
        stack.callback(lambda: [pair.close() for pair in pairs])
        riding = [pair for pair in pairs if _tried(pair, pair.start)]
        for number in range(kills + pauses):
            begun = time.monotonic()
            if number < kills:
                _kill(group)
                until = begun + KILL_EVERY_S
            else:
                _pause(group)
                until = begun + PAUSE_EVERY_S
            time.sleep(max(0.0, until - time.monotonic()))
            for pair in riding:
                pair.note_fault(begun, until)
            shown = {pair.pair.name: round(pair.seen.send_ms[-1]) for pair in riding}
            print(f"{kind} relay={relay} fault {number + 1}: {shown}", flush=True)
        stop.touch()
        for pair in riding:
            _tried(pair, pair.conclude)
        for pair in pairs:
            if pair.failure:
                print(f"{pair.pair.name}: {pair.failure}", flush=True)
        return {pair.pair.name: pair.seen for pair in riding if not pair.failure}


def _tried(pair: Running, phase: Any) -> bool:
    try:
        phase()
    except UnavailableError as error:
        pair.failure = f"cannot be had: {error}"
    except Exception as error:
        pair.failure = f"failed: {error}"
    return not pair.failure


def _kill(group: Group) -> None:
    master = group.master()
    assert master is not None
    master.process.kill9()
    time.sleep(RESTART_AFTER_S)
    master.start()


def _pause(group: Group) -> None:
    master = group.master()
    assert master is not None
    master.process.pause()
    time.sleep(PAUSED_S)
    master.process.resume()


def table(kinds: Sequence[str], kills: int, pauses: int) -> str:
    """Times without an acknowledgement or a consumed message, in ms: median, p99 and maximum."""
    lines = [
        "| servers | client | kills: sends | kills: consumed | pauses: sends | pauses: consumed"
        " | acknowledged | failed | lost | again |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    runs = [("EpochMQ, relay", OUR_SERVERS, True), ("EpochMQ", OUR_SERVERS, False)]
    if "java" in kinds:
        runs.append(("Java", JAVA, False))
    for name, kind, relay in runs:
        for client, seen in measure(kind, relay=relay, kills=kills, pauses=pauses).items():
            cells = [
                _shown(seen.send_ms[:kills]),
                _shown(seen.consume_ms[:kills]),
                _shown(seen.send_ms[kills:]),
                _shown(seen.consume_ms[kills:]),
                f"{seen.acked:,}",
                f"{seen.failed:,}",
                str(seen.lost),
                str(seen.again),
            ]
            lines.append(f"| {name} | {client} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def _shown(values: Sequence[float]) -> str:
    if not values:
        return "-"
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"{statistics.median(ordered):,.0f} / {p99:,.0f} / {ordered[-1]:,.0f}"
