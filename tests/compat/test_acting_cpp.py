"""The C++ client through the death and return of a master whose slave acts for it (RIP-32).

One process sends to both groups of a topic, another reads it in order, and one has half messages
in both. The library asks for routes every 30 s and offers no way to change that; here its own
function for it is called more often.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.offsets import Offsets

from .clients import CPP_EXTRAS
from .conftest import had
from .drivers.driver import Driver, Event
from .peers import admin
from .peers.cluster import Config
from .peers.group import Server
from .peers.pairs import Pairs
from .peers.process import wait_until
from .peers.records import Record, bound, read_topic

DIES, STAYS = "broker-a", "broker-b"
TOPIC, QUEUES = "acting_cpp", 4
GROUP, LATER = "G_acting_cpp", "G_acting_cpp_later"
HALF, HALVES = "acting_cpp_half", 16
SOON: Config = {
    "brokerNotActiveTimeoutMillis": 2_000,
    "transactionTimeOut": 3_000,
    "transactionCheckInterval": 1_000,
}
SOME = 60
"""So many messages are waited for in each phase; half of them are the other group's."""
POLL_MS = 500
WAIT_MAX_S = 60.0
AGAIN_MAX = 1_100
"""A client has at most 1,000 messages of a queue in hand, and 32 with each pull."""


@dataclass
class Ride:
    """The two processes, and what they said so far."""

    sender: Driver
    reader: Driver
    acked: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    consumed: list[str] = field(default_factory=list)
    _heard: int = 0

    def listen(self) -> None:
        """Take note of what the sender has said."""
        self.sender.skip()
        events, before = self.sender.seen, self._heard
        self._heard = len(events)
        for event in events[before:]:
            if event["event"] in ("sent", "failed"):
                is_acked = event.get("status") == "SEND_OK"
                (self.acked if is_acked else self.unknown).append(event["body"])

    def wait_acks(self, count: int) -> None:
        """Until so many more are acknowledged."""
        self.listen()
        wanted = len(self.acked) + count

        def are_there() -> bool:
            self.listen()
            return len(self.acked) >= wanted

        wait_until(are_there, WAIT_MAX_S, f"{count} acknowledgements")

    def wait_consumed(self, bodies: set[str]) -> None:
        """Until all of these were given to the listener."""
        self.consumed += given(self.reader, bodies - set(self.consumed))


def given(reader: Driver, wanted: set[str]) -> list[str]:
    """What comes until all of these have."""
    found: list[str] = []
    missing = set(wanted)
    deadline = time.monotonic() + WAIT_MAX_S
    while missing:
        event = reader.wait_event(is_received, deadline - time.monotonic())
        found.append(event["body"])
        missing.discard(event["body"])
    return found


def is_received(event: Event) -> bool:
    return bool(event["event"] == "received")


@contextmanager
def looked_at(offsets: Offsets) -> Iterator[None]:
    """Committed offsets are asked for all the time."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            offsets.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def start(pairs: Pairs, stop: Path, stack: ExitStack) -> Ride:
    """Both processes; messages flow."""
    for master in pairs.masters.values():
        for topic in (TOPIC, HALF):
            admin.create_topic(master.address, topic, QUEUES)
        for group in (GROUP, LATER):
            admin.set_group(master.address, group)
    sender, reader = (stack.enter_context(CPP_EXTRAS.build()) for _ in range(2))
    ride = Ride(sender, reader)
    read(reader, pairs, GROUP)
    pace = {"pause_ms": 10, "poll_ms": POLL_MS, "timeout_ms": 3_000}
    sender.start("send", pairs.namesrv_addr, TOPIC, until=stop, **pace)
    ride.wait_acks(SOME)
    ride.wait_consumed(set(ride.acked))
    return ride


def read(reader: Driver, pairs: Pairs, group: str) -> None:
    """Begin to read in order."""
    often = {"poll_ms": POLL_MS, "timeout_ms": 600_000}
    reader.start("push", pairs.namesrv_addr, TOPIC, group=group, order=True, count=0, **often)
    reader.wait_event(lambda event: event["event"] == "started", WAIT_MAX_S)


def keep_silent(pairs: Pairs, stack: ExitStack) -> None:
    """A producer with open transactions, which it commits when it is asked about them."""
    producer = stack.enter_context(CPP_EXTRAS.build())
    producer.start(
        "transact", pairs.namesrv_addr, HALF, group="P_acting_cpp", local="unknown",
        check="commit", prefix="h", count=HALVES, poll_ms=POLL_MS, linger_ms=600_000,
    )  # fmt: skip
    for _ in range(HALVES):
        producer.wait_event(lambda event: event["event"] == "sent", WAIT_MAX_S)


def committed(*brokers: Server) -> Counter[str]:
    """What became of the transactions, as the brokers have it."""
    return Counter(record.text for each in brokers for record in read_topic(each.address, HALF))


def end_of(address: str) -> int:
    """How many messages the topic has there."""
    return sum(bound(address, TOPIC, queue) for queue in range(QUEUES))


def test_it_sends_and_reads_in_order_and_loses_nothing(tmp_path: Path) -> None:
    had(CPP_EXTRAS.build).close()
    with Pairs(names=(DIES, STAYS), broker_config=SOON) as pairs, ExitStack() as stack:
        dies, stands_in, stays = pairs.masters[DIES], pairs.slaves[DIES], pairs.masters[STAYS]
        stop = tmp_path / "stop"
        ride = start(pairs, stop, stack)
        offsets = Offsets(pairs, DIES, TOPIC, GROUP, QUEUES)
        stack.enter_context(looked_at(offsets))
        wait_until(lambda: any(offsets.seen), WAIT_MAX_S, "a committed offset")

        ride.reader.pause()  # what is acknowledged now only the acting master can give it
        ride.wait_acks(SOME)
        keep_silent(pairs, stack)
        dies.process.kill9()
        ride.listen()
        backlog, living = set(ride.acked), end_of(stays.address)
        ride.reader.resume()
        ride.wait_consumed(backlog)
        wait_until(lambda: end_of(stays.address) > living + SOME, WAIT_MAX_S, "sends go on")
        ride.wait_acks(SOME)
        end = end_of(stands_in.address)
        wait_until(lambda: sum(offsets.seen) == end, WAIT_MAX_S, "the acting master gets offsets")
        with CPP_EXTRAS.build() as later:  # and it gives locks
            read(later, pairs, LATER)
            given(later, {record.text for record in read_topic(stands_in.address, TOPIC)})
        here = (stands_in, stays)
        wait_until(lambda: len(committed(*here)) == HALVES, WAIT_MAX_S, "it asks, and moves on")

        dies.start()
        wait_until(pairs.is_ready, WAIT_MAX_S, "the master is back")
        before = end_of(dies.address)
        wait_until(lambda: end_of(dies.address) > before + SOME, WAIT_MAX_S, "sends to it")
        stop.touch()
        ride.sender.finish(WAIT_MAX_S)
        ride.listen()
        ride.wait_consumed(set(ride.acked))
        check(ride, {name: read_topic(at.address, TOPIC) for name, at in pairs.masters.items()})
        assert offsets.went_back == []
        check_transactions(committed(dies), committed(stays))


def check_transactions(back: Counter[str], moved_on: Counter[str]) -> None:
    """All were committed, each once but for those that were on their way when roles changed."""
    both = back + moved_on
    again = {body: (back[body], moved_on[body]) for body in both if both[body] > 1}
    print(f"{len(both)} transactions, committed again {again}")
    assert both.keys() == {f"h-{i}" for i in range(HALVES)}
    assert len(again) < HALVES


def check(ride: Ride, found: dict[str, list[Record]]) -> None:
    """What was sent is there and came, each queue's messages in its order, few of them again."""
    consumed, sent = set(ride.consumed), {*ride.acked, *ride.unknown}
    again = len(ride.consumed) - len(consumed)
    print(f"{len(ride.acked)} acknowledged, {len(ride.unknown)} unknown, {again} consumed again")
    assert not consumed - sent, "never sent"
    assert again <= AGAIN_MAX
    places = defaultdict(list)
    for name, records in found.items():
        for record in records:
            places[record.text].append((name, record.queue, record.queue_offset))
    assert not set(ride.acked) - places.keys(), "lost"
    order = defaultdict(list)
    for body in dict.fromkeys(ride.consumed):
        if len(places[body]) == 1:  # what got no answer is sent again elsewhere
            ((name, queue, offset),) = places[body]
            order[name, queue].append(offset)
    assert all(offsets == sorted(offsets) for offsets in order.values()), "out of order"
    assert {name for name, _ in order} == {DIES, STAYS}
