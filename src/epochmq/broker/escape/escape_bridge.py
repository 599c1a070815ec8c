"""Escape bridge: chooses a master for each message, and tracks each send (RIP-32, ADR 0051).

A put is a batch of messages; each message gets exactly one outcome, and the batch is answered once:

- STORED only when a master answered SEND_OK, which it sends once it holds the message as its own
  options require (H14).
- A master that refuses or cannot be reached is passed over. When no master takes a message, the
  message waits a little longer each time. No message is ever skipped (H13, rocketmq#7577, #7927).
- After a lost answer it is unknown whether the message is stored. The message is sent again to the
  same master for `FAITHFUL_MS`, because that master drops a repeat; after that to another master.
- LATER when no master took any message of a batch for `WAIT_MAX_MS`, so that the caller learns of
  it. A batch of which some message is, or may be, stored is not given up, because its caller would
  put the whole batch again; it is tried until this broker stops acting (`stop`).

The outcome is never ILLEGAL: a message that one master finds illegal is kept for another, and in
the end for this group's own master.

This module does no I/O: it gets monotonic `now` in ms, and returns the messages to send. The
callbacks are those of the internal writer.
"""

import heapq
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import takewhile
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.backoff import backoff_ms
from epochmq.broker.escape.forward_batch import ForwardBatch, ForwardedMessage, ForwardItem, Where
from epochmq.broker.escape.masters import Masters, Wants
from epochmq.broker.internal_writes.internal_writer import Done, WriteOutcome
from epochmq.model.names import is_retry_topic
from epochmq.model.revive_routing import favourite, pinned, place_of

IN_FLIGHT_MAX = 256
IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024
WAIT_MAX_MS = 3_000
FAITHFUL_MS = 10_000
"""How long a message goes to the same master again that may have it, but does not answer (ms)."""
PAUSE_MS, PAUSE_MAX_MS = 200, 10_000
"""The pause after no master took a message (ms): it doubles from the first to the second value."""
UNKNOWN_MS = 50
"""The pause while the name servers are being asked (ms)."""


class SendOutcome(Enum):
    """The result of sending one message."""

    HELD = auto()
    """The master answered SEND_OK."""
    WEAK = auto()
    """The message is in the master's log, but not held as its options require (FLUSH_DISK_TIMEOUT
    etc.)."""
    REFUSED = auto()
    """The master certainly did not store the message."""
    UNREACHED = auto()
    """The message was not sent."""
    LOST = auto()
    """The message was sent, and no answer came: it may be stored."""


class ForwardItems(NamedTuple):
    """Send the message to the master of group `name`; report the result by `answered`."""

    forward_item: ForwardItem
    name: str
    address: str


class Escape:
    """All messages that one broker sends to other groups."""

    def __init__(self, own_name: str) -> None:
        self.masters = Masters()
        self.active = False
        """Whether this broker is acting master; then the list of masters is kept up to date."""
        self._own = own_name
        self._batches: dict[int, ForwardBatch] = {}
        self._plan: list[tuple[int, int, ForwardItem]] = []
        self._ids = 0
        self._turn = 0
        self._open = 0
        self._flying = 0
        self._flying_bytes = 0
        self._counts = {"stored": 0, "again": 0, "refused": 0, "given_up": 0}

    # Work ------------------------------------------------------------------------------------

    def put(self, items: Sequence[ForwardedMessage], done: Done, now: int) -> None:
        """Send `items` to other groups; `done` gets their outcomes in order, at once or later."""
        if not items or self._open + len(items) > limits.ESCAPES_MAX:
            done([WriteOutcome.LATER] * len(items))
            return
        first = self._ids
        self._ids += len(items)
        self._open += len(items)

        def settled(outcomes: Sequence[WriteOutcome]) -> None:
            self._open -= len(items)
            self._batches.pop(first, None)
            done(outcomes)

        batch = self._batches[first] = ForwardBatch(items, first, settled, now)
        for forward_item in batch.forward_items:
            self._push(forward_item, now)

    def sends(self, now: int) -> list[ForwardItems]:
        """Return the messages to send now; give up batches that no master took for too long."""
        self._give_up(now)
        found: list[ForwardItems] = []
        postponed: list[tuple[int, ForwardItem]] = []
        plan = self._plan
        while plan and plan[0][0] <= now and self._has_room:
            forward_item = heapq.heappop(plan)[2]
            if forward_item.over:
                continue
            name, again_ms = self._choose(forward_item, now)
            if name is None:
                postponed.append((max(again_ms, now + 1), forward_item))
                continue
            forward_item.batch.flying += 1
            self._flying += 1
            self._flying_bytes += forward_item.item.size
            self._counts["again"] += forward_item.tries > 0
            forward_item.tries += 1
            found.append(ForwardItems(forward_item, name, self.masters.addresses[name]))
        for at_ms, forward_item in postponed:
            self._push(forward_item, at_ms)
        return found

    @property
    def _has_room(self) -> bool:
        return self._flying < IN_FLIGHT_MAX and self._flying_bytes < IN_FLIGHT_BYTES_MAX

    def answered(self, send: ForwardItems, verdict: SendOutcome, now: int) -> None:
        """Handle the result of one send."""
        forward_item, name, _ = send
        forward_item.batch.flying -= 1
        self._flying -= 1
        self._flying_bytes -= forward_item.item.size
        if verdict in (SendOutcome.UNREACHED, SendOutcome.LOST):
            self.masters.failed(name, now)
        else:
            self.masters.served(name)
        if forward_item.over:  # this broker acts no longer
            return
        if verdict is SendOutcome.HELD:
            self._counts["stored"] += 1
            forward_item.batch.touched = True
            forward_item.set_outcome(WriteOutcome.STORED)
            return
        at_ms = now
        if verdict is SendOutcome.WEAK:
            forward_item.batch.touched = True
            forward_item.held_by, forward_item.lost_at_ms = name, now
            at_ms = self._pause(forward_item, now)
        elif verdict is SendOutcome.LOST:
            forward_item.batch.touched = True
            if forward_item.held_by != name:
                forward_item.held_by, forward_item.lost_at_ms = name, now
        elif verdict is SendOutcome.REFUSED:
            self._counts["refused"] += 1
            forward_item.held_by = ""
            forward_item.refused_by.add(name)
            self.masters.look_again(now)
        self._push(forward_item, at_ms)

    def stop(self) -> None:
        """Give up all messages: this broker stops acting. Messages not known to be held are
        LATER."""
        self._plan.clear()
        for batch in list(self._batches.values()):
            self._fail_open(batch)

    def choose_pin(self, topic: str, revive_topic: str, now: int) -> int | None:
        """Choose a revive queue number for check points of `topic`: a master, and its queue.

        Returns None when no living master has both topics, or when that is not known yet.
        """
        masters = self.masters
        topics = {revive_topic} if is_retry_topic(topic) else {topic, revive_topic}
        unknown = [one for one in topics if not masters.want(one, now)]
        if unknown:
            return None
        revive = masters.queues(revive_topic)
        able = [name for name in revive if all(name in masters.queues(one) for one in topics)]
        awake = [name for name in able if masters.rests_until(name) <= now]
        name = favourite(f"{self._own}@{topic}", awake or able)
        if name is None:
            return None
        self._turn += 1
        return pinned(place_of(name), self._turn % revive[name])

    def maker(self, topic: str, revive_topic: str, now: int) -> str | None:
        """Return the address of a master on which `topic` may be created, because no other group
        has it: one that creates topics on first send, and can keep check points. None when there is
        none, or no need."""
        masters = self.masters
        if not masters.want(topic, now) or masters.queues(topic):
            return None
        revive = masters.queues(revive_topic)
        able = [name for name in masters.making(now) or () if name in revive]
        name = favourite(f"{self._own}@{topic}", able)
        return None if name is None else masters.addresses[name]

    # Name server questions -------------------------------------------------------------------

    def asks(self, now: int) -> Wants:
        """Return what to ask the name servers now."""
        if not self.active and not self._batches:
            return Wants(False, [])
        return self.masters.wants(now)

    def next_deadline(self) -> int | None:
        oldest = next(self._impatient(), None)
        wanted = [] if oldest is None else [oldest.since_ms + WAIT_MAX_MS]
        if self._plan and self._has_room:
            wanted.append(self._plan[0][0])
        if self.active or self._batches:
            asks = self.masters.next_deadline()
            wanted += [] if asks is None else [asks]
        return min(wanted, default=None)

    def statistics(self) -> dict[str, int]:
        return {
            "waiting": self._open - self._flying,
            "in_flight": self._flying,
            "masters": len(self.masters.addresses),
            **self._counts,
        }

    def oldest_ms(self, now: int) -> int:
        """Return how long the oldest message that no master holds has waited (ms); 0 when there is
        none."""
        first = next(iter(self._batches.values()), None)
        return 0 if first is None else now - first.since_ms

    # Inside ----------------------------------------------------------------------------------

    def _push(self, forward_item: ForwardItem, at_ms: int) -> None:
        heapq.heappush(self._plan, (at_ms, forward_item.id, forward_item))

    def _pause(self, forward_item: ForwardItem, now: int) -> int:
        pause = backoff_ms(forward_item.failures, PAUSE_MS, PAUSE_MAX_MS)
        forward_item.failures += 1
        return now + pause

    def _choose(self, forward_item: ForwardItem, now: int) -> tuple[str | None, int]:
        """Return (the master to send to, 0), or (None, the time of the next choice in ms)."""
        masters = self.masters
        if forward_item.held_by:
            rest_ms = masters.rests_until(forward_item.held_by)
            there = forward_item.held_by in masters.addresses
            if there and now < forward_item.lost_at_ms + FAITHFUL_MS:
                return (forward_item.held_by, 0) if rest_ms <= now else (None, rest_ms)
            forward_item.held_by = ""
        names = self._candidates(forward_item.item, now)
        if names is None:
            return None, now + UNKNOWN_MS
        left = [name for name in names if name not in forward_item.refused_by]
        if not left:
            forward_item.refused_by.clear()
            return None, self._pause(forward_item, now)
        awake = [name for name in left if masters.rests_until(name) <= now]
        if not awake:
            return None, min(map(masters.rests_until, left))
        return favourite(forward_item.item.name, awake), 0

    def _candidates(self, item: ForwardedMessage, now: int) -> list[str] | None:
        """Return the masters that may take `item`; None when they are not known yet."""
        masters = self.masters
        if not masters.known:
            return None
        if item.where is Where.PINNED:
            name = masters.at(item.place)
            return [] if name is None else [name]
        if item.where is Where.ANY:
            return list(masters.addresses)
        if not masters.want(item.topic, now):
            return None
        names = list(masters.queues(item.topic))
        if item.where is Where.ONE:
            name = favourite(f"{self._own}@{item.topic}", names)
            return [] if name is None else [name]
        return names or masters.making(now)

    def _impatient(self) -> Iterator[ForwardBatch]:
        """Iterate over the batches that may be given up, oldest first: no message of them was taken
        or is being sent."""
        return (batch for batch in self._batches.values() if not (batch.touched or batch.flying))

    def _give_up(self, now: int) -> None:
        late = takewhile(lambda batch: now - batch.since_ms >= WAIT_MAX_MS, self._impatient())
        for batch in list(late):
            self._fail_open(batch)

    def _fail_open(self, batch: ForwardBatch) -> None:
        for forward_item in batch.forward_items:
            if not forward_item.over:
                self._counts["given_up"] += 1
                forward_item.set_outcome(WriteOutcome.LATER)
