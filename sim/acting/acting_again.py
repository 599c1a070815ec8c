"""A message comes again only if it was in flight when somebody was hit, or handed over.

The issue's promise: a master returns, and nothing is delivered again beyond what was in flight.
In flight is, at the broker that took it, what its group had no calm moment to copy and to save
(`sim/acting/acting_calm.py`), and:

- pulled: an offset that was committed (INV-29);
- moved on (delayed, timed, committed; INV-27, INV-26): its put was not answered, or not all of its
  batch was held, or its broker took another role before the answer, or the progress behind it was
  not saved and copied yet. A piece of a longer wait that was in flight is two messages afterwards,
  and each is delivered. A clock that is set and a wheel that is created again repeat nothing;
- popped: what was not acknowledged in its time, or is on its way back (INV-28).

A power cut is a death here, and so is a lost disk: tables are synced whenever they are saved, so no
more of them goes than with a kill. Whoever takes the place of a lost disk is the slave that was.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.client.core.pop_state import PopHandle
from epochmq.model.names import TIMER_TOPIC
from epochmq.model.properties import find
from epochmq.model.property_names import FIRST_POP_TIME, TIMER_ROLL_TIMES
from epochmq.model.revive_routing import is_pinned
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.model.tags import tags_code
from epochmq.store.draft import Draft
from sim.acting.acting_book import number_in
from sim.acting.acting_calm import Calm
from sim.acting.acting_end import LATER
from sim.kernel.checker import Checker
from sim.kernel.runtime_patches import Served
from sim.kernel.violation import Violation
from sim.kernel.workload import TOPICS
from sim.kernel.world import MS, SECOND, World

if TYPE_CHECKING:
    from sim.acting.acting_broker import BrokerProcess
    from sim.acting.acting_clients import Queue
    from sim.acting.acting_world import ActingHistory

COPY_MS = 1_000
"""Beside the period: a call, its repetition, and what a tick waits."""
SYNCED_MS = 1_000
"""flushIntervalCommitLog, and a sync: with ASYNC_FLUSH every table waits so long for the log to be
on the device, before it is saved itself."""
APART_MS = 100
"""More than clocks that nobody set drift apart in a history."""
PUTS_MARK, EXPLAINED_MARK = "again.measured", "again.would_be_explained"
RULES = {"level": "INV-27", "timer": "INV-27", "half": "INV-26"}


CHECK_POINT_TAG = tags_code("ck")


class Pop(NamedTuple):
    """What names a check point; `topic` is the topic itself for a pop of its retry topic."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int
    wall_ms: int


def _pop_of(draft: Draft) -> Pop:
    """From the index key of a check point: topic@queue@offset@group@time@broker@ck."""
    topic, queue_id, offset, _, wall_ms, broker_name, _ = draft.keys[0].rsplit("@", 6)
    return Pop(topic.rpartition("+")[2], broker_name, int(queue_id), int(offset), int(wall_ms))


@dataclass(slots=True)
class Commit:
    """An offset that a broker took."""

    offset: int
    host: str
    by_master: bool
    at_us: int


@dataclass(slots=True, eq=False)
class Put:
    """A message, or a piece of its wait, on its way through a broker's outlet."""

    broker: "BrokerProcess"
    is_last: bool
    """Whether readers see it."""
    by_master: bool
    begin_us: int
    end_us: int | None = None
    is_held: bool = False
    """STORED, in time, and all others of its batch too."""
    popped_ms: int = -1
    """On its way back from a pop: the wall time of the first one that took it."""


@dataclass(slots=True)
class Ticket:
    """A popped message."""

    handle: PopHandle
    host: str
    by_master: bool
    at_us: int
    until_us: int
    came_us: int
    acked_us: int | None = None
    taken_us: int = 0
    """When the acknowledgement was sent."""


class Again(Checker):
    """Hears of every commit, put, pop and acknowledgement, and of what comes twice."""

    rule = "INV-29"

    def __init__(self, history: "ActingHistory") -> None:
        self.history, self.world = history, history.world
        self.calm = Calm(history)
        drawn = history.drawn
        self._copied_us = (drawn["slave_metadata_period"] + COPY_MS) * MS
        synced_ms = 0 if drawn["flush_disk_type"] == "SYNC_FLUSH" else SYNCED_MS
        periods = {
            "pulled": drawn["flush_consumer_offset_interval"],
            "level": drawn["flush_delay_offset_interval"],
            "timer": drawn["timer_flush_interval_ms"],
            "half": drawn["flush_consumer_offset_interval"],
        }
        self._saved_us = {kind: (ms + synced_ms) * MS for kind, ms in periods.items()}
        self._commits: dict[Queue, list[Commit]] = defaultdict(list)
        self._puts: dict[int, list[Put]] = defaultdict(list)
        self._pieces: dict[tuple[int, bytes], list[Put]] = defaultdict(list)
        """By message and TIMER_ROLL_TIMES: who handed this piece of its wait on."""
        self._forks: Counter[int] = Counter()
        """By message: pieces of its wait that came again, and were in flight."""
        self._copies: Counter[tuple[int, bytes]] = Counter()
        """By message and TIMER_ROLL_TIMES: how often a log got this piece from another broker."""
        self._again: Counter[int] = Counter()
        """By message: deliveries that only a fork explains."""
        self._revived: dict[int, list[Put]] = defaultdict(list)
        self._batches: dict[object, list[tuple[int, Put]]] = {}
        self._tenures: Counter[BrokerProcess] = Counter()
        self._arrived: set[tuple[int, str, BrokerProcess, int, bytes | None]] = set()
        self._set_us = -1
        self._emptied_us: dict[str, int] = {}
        self._tickets: dict[int, dict[PopHandle, Ticket]] = defaultdict(dict)
        self._check_points: dict[Pop, set[str]] = defaultdict(set)
        """By pop: the brokers that wrote a check point of it. Two brokers of a group may pop from
        the same queue in the same millisecond, when one of them was paused as master before."""

    def blame(self, rule: str, text: str, name: str) -> None:
        raise Violation(rule, text, (name,))

    def takes_role(self, broker: "BrokerProcess", before: Role, role: Role) -> None:
        self.calm.took_role(broker, before, role)
        self._tenures[broker] += 1
        for batch in self._batches.values():
            for _, put in batch:
                if put.broker is broker:
                    put.end_us = self.world.time_us  # its answer comes too late

    def is_master(self, name: str) -> bool:
        process = self.world.hosts[name].process
        return isinstance(process, Served) and getattr(process, "role", None) is Role.MASTER

    def lost(
        self, kind: str, fact: "Commit | Put | Ticket", name: str, since_us: int, by: str
    ) -> bool:
        """Whether what `name` took then may be unknown to `by`."""
        calm, copied_us, now = self.calm, self._copied_us, self.world.time_us
        saved_us = self._saved_us[kind]
        if calm.took_along(name, since_us, now, copied_us=copied_us, saved_us=saved_us):
            return True
        if fact.by_master and calm.was_away(name, since_us, copied_us):
            return True
        if by != name and self.is_master(by) and calm.was_away(by, now, copied_us):
            return True
        return by != name and calm.is_stale(by, since_us)

    def clocks_set(self) -> None:
        """Somebody sets wall clocks. Invisible times are over by the clock of who has the check
        point, which may be another broker than the one that was asked."""
        self._set_us = self.world.time_us

    def are_apart(self, name: str, others: list[str]) -> bool:
        """Whether its wall clock is another's no more: who has its check points goes by that."""
        hosts = self.world.hosts
        return any(abs(hosts[name].wall - hosts[other].wall) > APART_MS for other in others)

    def emptied(self, name: str) -> None:
        """Somebody gives the replica an empty store: what it had copied before is gone."""
        self._emptied_us[name] = self.world.time_us

    # Pulled ----------------------------------------------------------------------------------

    def committed(self, queue: "Queue", offset: int, host: str, since_us: int) -> None:
        """It was asked for at `since_us`: who took it may be dead when the answer arrives."""
        commit = Commit(offset, host, self.is_master(host), since_us)
        self._commits[queue].append(commit)

    def begins_again(self, queue: "Queue", offset: int, host: str) -> None:
        """A consumer asked where it stands."""
        commits = self._commits[queue]
        later = [commit for commit in commits if commit.offset > offset]
        self._commits[queue] = [commit for commit in commits if commit.offset <= offset]
        for commit in later:
            self.world.mark("again.pulled")
            if self.has_old_copy(host, commit.at_us):
                continue
            if not self.lost("pulled", commit, commit.host, commit.at_us, host):
                ago_ms = (self.world.time_us - commit.at_us) // MS
                text = f"{queue} is at {offset}; {commit.host} took {commit.offset} {ago_ms} ms ago"
                self.blame("INV-29", text, host)

    def has_old_copy(self, name: str, since_us: int) -> bool:
        """Whether it is a replica that nobody could count on to have copied what was taken then: a
        name server that was away may show it before its master registers there again."""
        process = self.world.hosts[name].process
        if getattr(process, "role", None) is not Role.SLAVE:
            return False
        group, now = self.history.group_of(name), self.world.time_us
        since_us = max(since_us, self._emptied_us.get(name, 0))
        return not self.calm.was_calm(group, since_us, now, self._copied_us)

    # Moved on --------------------------------------------------------------------------------

    def puts(
        self, broker: "BrokerProcess", drafts: Sequence[Draft], origin: Origin, batch: object
    ) -> None:
        """A broker's outlet gets them."""
        found = self._batches[batch] = []
        for draft in drafts:
            if draft.tags_code == CHECK_POINT_TAG:
                self._check_points[_pop_of(draft)].add(broker.host.name)
            number = number_in(bytes(draft.body[:12]))
            if number < 0:
                continue
            revived, waits = origin is Origin.REVIVE, draft.topic == TIMER_TOPIC
            if not (revived or waits or draft.topic in TOPICS):
                continue
            waits = waits or bool(draft.sys_flag & TX_PREPARED)
            put = Put(broker, not waits, broker.role is Role.MASTER, self.world.time_us)
            if revived:
                put.popped_ms = int(find(draft.properties, FIRST_POP_TIME.encode()) or -1)
            elif origin is Origin.TIMER and waits:
                self.judge_piece(number, draft, put)
            else:
                self.judge_put(number, put)
            (self._revived if revived else self._puts)[number].append(put)
            found.append((number, put))

    def put(self, outcomes: Sequence[WriteOutcome], batch: object) -> None:
        """The internal writer answers for the batch."""
        held = all(outcome is WriteOutcome.STORED for outcome in outcomes)
        for _, put in self._batches.pop(batch):
            put.is_held = held and put.end_us is None
            put.end_us = self.world.time_us

    def arrives(self, broker: "BrokerProcess", drafts: Sequence[Draft]) -> None:
        """A log gets them. What another group hands over is dropped when it comes again, as long as
        the master lives (`broker/produce/send_sink.py`). But two pieces of one wait, of which one
        was created again by who took over, are two messages."""
        for draft in drafts:
            number = number_in(bytes(draft.body[:12]))
            piece = find(draft.properties, TIMER_ROLL_TIMES.encode())
            if number < 0:
                continue
            if draft.topic == TIMER_TOPIC and piece is not None:
                self.piece_arrives(broker, number, piece)
            elif draft.topic in TOPICS and not self.is_put_by(broker, number):
                sent = self.history.book.sends[number]
                if sent.queue.group != broker.group and sent.kind in LATER:
                    text = f"message {number} is handed over again, and stored"
                    self.is_new_here(broker, number, draft.topic, piece, text)

    def piece_arrives(self, broker: "BrokerProcess", number: int, piece: bytes) -> None:
        """A piece that was in flight is two messages: another copy of it is stored when the master
        that stored the first one died before it answered."""
        puts = self._pieces[number, piece]
        if any(put.broker is broker and put.end_us is None for put in puts):
            return  # the broker writes it by itself
        text = f"a piece of message {number} is handed over again, and stored"
        self.is_new_here(broker, number, TIMER_TOPIC, piece, text)
        self._copies[number, piece] += 1
        if self._copies[number, piece] > len(puts) and not all(put.is_held for put in puts):
            self.world.mark("again.piece_copied")
            self._forks[number] += 1

    def is_new_here(
        self, broker: "BrokerProcess", number: int, topic: str, piece: bytes | None, text: str
    ) -> None:
        """A master that lives knows again what it stored."""
        place = number, topic, broker, self._tenures[broker], piece
        if place in self._arrived:
            self.blame("INV-27", text, broker.host.name)
        self._arrived.add(place)

    def is_put_by(self, broker: "BrokerProcess", number: int) -> bool:
        """Whether the broker is about to write it by itself."""
        return any(p.broker is broker and p.end_us is None for p in self._puts.get(number, ()))

    def judge_put(self, number: int, put: Put) -> None:
        before = self._puts[number]
        kind = self.history.book.sends[number].kind
        if put.is_last:
            self.measure(kind, put)
        if not put.is_last or not any(other.is_last for other in before):
            return
        self.world.mark(f"again.{kind}")
        by = put.broker.host.name
        if any(self.may_come_again(kind, other, by) for other in before):
            return
        self._again[number] += 1
        if self._again[number] > self._forks[number]:
            first = before[-1]
            ago_ms = (self.world.time_us - (first.end_us or 0)) // MS
            text = f"message {number} ({kind}) is delivered again; {first.broker.host.name} did"
            self.blame(RULES[kind], f"{text} {ago_ms} ms ago", by)

    def measure(self, kind: str, put: Put) -> None:
        """Count how often a repeat of what was held a second before would be explained now."""
        name, since_us = put.broker.host.name, self.world.time_us - SECOND
        if since_us > 0:
            self.world.mark(PUTS_MARK)
            if self.lost(kind, put, name, since_us, name):
                self.world.mark(EXPLAINED_MARK)

    def judge_piece(self, number: int, draft: Draft, put: Put) -> None:
        """A piece of a longer wait is handed on; by a second broker only if it was in flight."""
        before = self._pieces[number, find(draft.properties, TIMER_ROLL_TIMES.encode()) or b""]
        if len(before) > self._forks[number]:
            self.world.mark("again.piece")
            by = put.broker.host.name
            if not any(self.may_come_again("timer", other, by) for other in before):
                ago_ms = (self.world.time_us - (before[-1].end_us or 0)) // MS
                text = f"a piece of message {number} is handed on again; "
                text += f"{before[-1].broker.host.name} did {ago_ms} ms ago"
                self.blame("INV-27", text, by)
            self._forks[number] += 1
        before.append(put)

    def may_come_again(self, kind: str, put: Put, by: str) -> bool:
        if not put.is_held or put.end_us is None:
            return True
        name, now = put.broker.host.name, self.world.time_us
        # A change of role counts for INV-27; offsets (INV-29) and transactions (INV-26) want more.
        if RULES.get(kind) == "INV-27" and self.calm.gave_up(
            name, put.end_us, now, self._copied_us
        ):
            return True
        return self.lost(kind, put, name, put.end_us, by)

    # Popped ----------------------------------------------------------------------------------

    def popped(self, number: int, handle: PopHandle, host: str, since_us: int) -> None:
        """A client has it in hand; it asked at `since_us`."""
        if self.history.book.sends[number].kind != "plain":
            return
        before = self._tickets[number]
        if before:
            self.world.mark("again.popped")
            revived = self._revived[number]
            seen_ms = {ticket.handle.pop_wall_ms for ticket in before.values()}
            unseen_ms = self.unanswered_ms(number, before.values())
            unseen = sum(
                put.popped_ms not in seen_ms or put.popped_ms in unseen_ms for put in revived
            )  # of pops unanswered
            if not (
                len(before) <= unseen
                or any(self.may_be_popped_again(ticket, host) for ticket in before.values())
                or any(self.may_come_again("pulled", put, host) for put in revived)
            ):
                tickets = ", ".join(str(t.handle) for t in before.values())
                self.blame("INV-28", f"message {number} is popped again, after {tickets}", host)
        until_us = since_us + handle.invisible_ms * MS
        by_master, now = self.is_master(host), self.world.time_us
        before[handle] = Ticket(handle, host, by_master, since_us, until_us, now)

    def unanswered_ms(self, number: int, tickets: Iterable[Ticket]) -> set[int]:
        """Pop times of `tickets` at which another broker popped the same, and no client knows."""
        topic = self.history.book.sends[number].queue.topic
        hosts: dict[Pop, set[str]] = defaultdict(set)
        for ticket in tickets:
            handle = ticket.handle
            pop = Pop(
                topic, handle.broker_name, handle.queue_id, handle.ck_offset, handle.pop_wall_ms
            )
            hosts[pop].add(ticket.host)
        return {pop.wall_ms for pop in hosts if self._check_points[pop] - hosts[pop]}

    def acked_pop(self, number: int, handle: PopHandle, since_us: int) -> None:
        """A broker said that it takes the acknowledgement."""
        ticket = self._tickets[number].get(handle)
        if ticket is not None and ticket.acked_us is None:
            ticket.acked_us, ticket.taken_us = self.world.time_us, since_us

    def may_be_popped_again(self, ticket: Ticket, by: str) -> bool:
        in_time = ticket.acked_us is not None and ticket.acked_us < ticket.until_us
        if ticket.acked_us is None or not in_time or ticket.at_us <= self._set_us:
            return True
        holders = [ticket.host]
        if is_pinned(ticket.handle.revive_queue_id):
            holders = [name for name in self.world.hosts if name[0] in self.history.groups]
            if self.are_apart(ticket.host, holders):
                return True
        times = ticket.at_us, ticket.taken_us
        return any(
            self.lost("pulled", ticket, name, at_us, by) for name in holders for at_us in times
        )

    # At the end ------------------------------------------------------------------------------

    def finish(self, world: World) -> None:
        """Copies that one put made: its first target was hit, and another one took it."""
        counts: dict[int, int] = defaultdict(int)
        for number in self.history.end.shown():
            counts[number] += 1
        for number, puts in self._puts.items():
            last = [put for put in puts if put.is_last]
            if counts[number] <= len(last):
                continue
            world.mark("again.copied")
            if not any(
                self.calm.anything(put.begin_us, put.end_us or world.time_us) for put in last
            ):
                kind = self.history.book.sends[number].kind
                text = f"{counts[number]} copies of message {number}, put {len(last)} times"
                self.blame(RULES[kind], text, last[0].broker.host.name)
