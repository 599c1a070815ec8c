"""The master is killed (`kill -9`) while clients of all makes send and consume (INV-20, INV-21).

One group of three brokers with `allAckInSyncStateSet`, and for each client a topic with a producer
and a consumer in processes of their own. What was acknowledged must be consumed, and nothing may be
consumed that was not sent.

Through a relay every client has its default settings, and neither its producer nor its consumer may
stop for longer than `RELAY_BOUND_S`. Without a relay (`make soak`) each client must send again
within its own bound: Java's, Node's and our clients look for the new master within a second or two
here; the Go and the C++ client ask for routes every 30 s and offer no way to change that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.tiers import choose

from .clients import ALL, CPP, GO, OURS, Client
from .drivers.driver import Driver, Event
from .peers import admin
from .peers.cache import UnavailableError
from .peers.group import Group

SETTLED = 40
"""So many acknowledgements before the kill, and again after it."""
SHARDS = 3  # the drivers put ordered message i into shard i mod 3
PAUSE_MS = 20
SEND_TIMEOUT_MS = 3_000
START_S = 90.0
QUICK_BOUND_S = 20.0
"""Polls each second, a send's timeout, and a machine that is busy with a dozen processes."""
ROUTE_POLL_BOUND_S = 30.0 + QUICK_BOUND_S
RELAY_BOUND_S = 5.0
"""For the longest time without an acknowledgement; all of it is due to a busy machine."""
MODES = choose(["relay"], ["relay", "direct"])
CONSUME_S = 90.0


@dataclass(frozen=True)
class Rider:
    """A client, and how it sends and consumes."""

    client: Client
    ordered: bool = False

    @property
    def name(self) -> str:
        """Names the topic and the group."""
        return self.client.name + ("Ordered" if self.ordered else "")

    @property
    def bound_s(self) -> float:
        """From the kill to so many acknowledgements, at most."""
        return ROUTE_POLL_BOUND_S if self.client in (GO, CPP) else QUICK_BOUND_S


RIDERS = (*(Rider(client) for client in ALL), Rider(OURS), Rider(OURS, ordered=True))


@dataclass
class Ride:
    """What one client did and saw."""

    acked: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Failed, or answered without the whole promise: each may be there or not."""
    consumed: list[str] = field(default_factory=list)
    killed_at: float = 0.0
    resumed_s: float = 0.0
    failed: int = 0
    """Sends that failed after the kill. A first send may fail before it, while a machine is busy
    with the start of a dozen processes."""
    longest_gap_s: float = 0.0
    """The longest time between two acknowledged sends."""

    @property
    def duplicates(self) -> int:
        """How many came again."""
        return len(self.consumed) - len(set(self.consumed))


def is_acked(event: Event) -> bool:
    """Stored by the whole set."""
    return event["event"] == "sent" and event["status"] == "SEND_OK"


class Pair:
    """A client's two processes; its methods wait, and run in a thread of their own."""

    def __init__(self, rider: Rider, group: Group, stop: Path) -> None:
        self.rider = rider
        self.ride = Ride()
        self._defaults: dict[str, Any] = {"poll_ms": 0} if group.relay is not None else {}
        self._stop = stop
        self._group = group
        self._topic = f"failover_{rider.name}"
        self._drivers = ExitStack()

    def start(self) -> None:
        """A consumer and a producer; returns once messages flow."""
        namesrv = self._group.namesrv_addr
        master = self._group.master()
        assert master is not None
        admin.create_topic(master.address, self._topic)
        consumers = admin.set_group(master.address, f"G_{self._topic}")
        self._consumer, self._sender = self._driver(), self._driver()
        order = self.rider.ordered
        options = {"group": consumers, "count": 0, "timeout_ms": 600_000, "order": order}
        options |= self._defaults
        self._consumer.start("push", namesrv, self._topic, **options)
        kind = "ordered" if order else "sync"
        pace = {"pause_ms": PAUSE_MS, "timeout_ms": SEND_TIMEOUT_MS, **self._defaults}
        self._sender.start("send", namesrv, self._topic, kind=kind, until=self._stop, **pace)
        self._wait_acks(START_S)
        self._consumer.wait_event(lambda event: event["event"] == "received", START_S)

    def _driver(self) -> Driver:
        return self._drivers.enter_context(self.rider.client.build())

    def _wait_acks(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        for _ in range(SETTLED):
            self._sender.wait_event(is_acked, deadline - time.monotonic())

    def resume(self, killed_at: float) -> None:
        """Wait until it sends again; what was answered before the kill does not count."""
        self.ride.killed_at = killed_at
        self._sender.skip()
        self._wait_acks(self.rider.bound_s - (time.monotonic() - killed_at))
        self.ride.resumed_s = time.monotonic() - killed_at

    def conclude(self) -> None:
        """After the stop: all that was sent, and wait until all of it was consumed."""
        events = self._sender.finish().events
        for event in events:
            (self.ride.acked if is_acked(event) else self.ride.unknown).append(event["body"])
        after_kill = [event for event in events if event["at"] >= self.ride.killed_at]
        self.ride.failed = sum(not is_acked(event) for event in after_kill)
        times = [event["at"] for event in events if is_acked(event)]
        self.ride.longest_gap_s = max(after - at for at, after in pairwise(times))
        missing = set(self.ride.acked)
        self._consumer.skip()
        self.ride.consumed = [e["body"] for e in self._consumer.seen if e["event"] == "received"]
        missing -= set(self.ride.consumed)
        deadline = time.monotonic() + CONSUME_S
        while missing:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"lost: {sorted(missing)[:10]} of {len(missing)}"
            event = self._consumer.wait_event(lambda e: e["event"] == "received", left_s)
            self.ride.consumed.append(event["body"])
            missing.discard(event["body"])

    def close(self) -> None:
        """End both processes."""
        self._drivers.close()


class Failover:
    """All riders on one group, each phase for all of them at once; the master dies between."""

    def __init__(self, group: Group, stop: Path) -> None:
        self.group = group
        self._stop = stop
        self.pairs = {rider.name: Pair(rider, group, stop) for rider in RIDERS}
        self.failures: dict[str, BaseException] = {}
        self._pool = ThreadPoolExecutor(len(RIDERS))

    def run(self) -> None:
        """Start, kill, wait for everyone, let the old master return, count."""
        self._all(Pair.start)
        old = self.group.master()
        assert old is not None
        old.process.kill9()
        killed_at = time.monotonic()
        self._all(lambda pair: pair.resume(killed_at))
        self._stop.touch()
        assert self.group.master() not in (None, old)
        old.start()
        self._all(Pair.conclude)
        self.group.wait_ready()

    def _all(self, phase: Callable[[Pair], None]) -> None:
        """Those that failed before are left out."""
        living = {n: pair for n, pair in self.pairs.items() if n not in self.failures}
        running = {name: self._pool.submit(phase, pair) for name, pair in living.items()}
        for name, future in running.items():
            failure = future.exception()
            if failure is not None:
                self.failures[name] = failure

    def close(self) -> None:
        """End all processes."""
        for pair in self.pairs.values():
            pair.close()
        self._pool.shutdown()


@pytest.fixture(scope="module", params=MODES)
def failover(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Failover]:
    config = {"minInSyncReplicas": 2}
    with Group(broker_config=config, relay=request.param == "relay") as group:
        running = Failover(group, tmp_path_factory.mktemp("failover") / "stop")
        try:
            running.run()
            yield running
        finally:
            running.close()


@pytest.mark.parametrize("rider", RIDERS, ids=lambda rider: rider.name)
def test_a_client_rides_through_a_failover(failover: Failover, rider: Rider) -> None:
    failure = failover.failures.get(rider.name)
    if isinstance(failure, UnavailableError):
        pytest.skip(f"cannot be had: {failure}")
    if failure is not None:
        raise failure
    ride = failover.pairs[rider.name].ride
    print(
        f"{rider.name}: sends again {ride.resumed_s:.1f} s after the kill,"
        f" {ride.longest_gap_s:.2f} s without an acknowledgement,"
        f" {len(ride.acked)} acknowledged, {len(ride.unknown)} unknown,"
        f" {ride.duplicates} consumed again"
    )
    consumed = set(ride.consumed)
    assert not set(ride.acked) - consumed, "lost"
    assert not consumed - set(ride.acked) - set(ride.unknown), "never sent"
    if failover.group.relay is not None:
        assert ride.longest_gap_s < RELAY_BOUND_S
        assert not ride.failed, "a client saw the failover as an error"
    if rider.ordered:
        first = [int(body.rpartition("-")[2]) for body in dict.fromkeys(ride.consumed)]
        for shard in range(SHARDS):
            numbers = [number for number in first if number % SHARDS == shard]
            assert numbers == sorted(numbers), f"shard {shard} out of order"
