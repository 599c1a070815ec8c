"""INV-28: what a pop handed out comes back unless it is acknowledged, and then it does not.

Heard at the broker: what its pops answer, which acknowledgements it takes, what it is about to put
into a retry topic. In one tenure (a process's time in one role) a place of a queue is handed out
once, and nothing is revived before its invisible time is over, whatever the wall clock does. What
was acknowledged under a check point is never revived because of that check point, whoever is master
by then. What was handed out at the end of a tenure may be handed out again by the next: its offset
is copied a moment later.
"""

from typing import TYPE_CHECKING, NamedTuple

from epochmq.broker.pop.pop_records import CheckPoint
from epochmq.broker.pop.revive import OpenCheckPoint
from epochmq.client.core.pop_state import NORMAL, RETRY_V1, RETRY_V2, retry_topic_of
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import (
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
    PopHeader,
    PopResponseHeader,
)
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS, number_of, queue_offset_of, read_all
from sim.kernel.world import World
from sim.secondary.pop_tickets import Place, Ticket, acked_by, entries, ticket_of

if TYPE_CHECKING:
    from sim.secondary.secondary_broker import SecondaryBroker

Tenure = tuple[str, int, int]
SLACK_MS = 2
"""Clocks of whole ms, read at two moments."""


class Held(NamedTuple):
    """Who handed a ticket out, and until when it is hidden (ms, that host's monotonic clock)."""

    tenure: Tenure
    until_ms: int


class Popped(Checker):
    """Everything that was handed out, hidden for longer, acknowledged, revived."""

    rule = "INV-28"

    def __init__(self, group: str, *, buffers: bool) -> None:
        self.group = group
        self.buffers = buffers
        """Young check points, and what is acknowledged of them, are in memory alone (ADR 0047)."""
        self.places: dict[Place, Tenure] = {}
        self.held: dict[Ticket, Held] = {}
        self.confirmed: dict[Ticket, Tenure] = {}
        self.asked_for: set[Place] = set()
        """Acknowledgements that arrived; one without an answer may have been taken."""
        self.revived: dict[Ticket, tuple[Tenure, OpenCheckPoint]] = {}
        self.began: dict[tuple[str, int, int, int], int] = {}
        """Topic, queue, start, pop time -> that host's monotonic clock at the pop."""

    def asked(self, request: Command) -> None:
        self.asked_for.update(ticket.place for ticket in acked_by(request, self.group))

    def answers(self, broker: "SecondaryBroker", request: Command, reply: Reply) -> None:
        if reply.code != 0:
            return
        for ticket in acked_by(request, self.group):
            self.took_ack(broker, ticket)
        if request.code == RequestCode.POP_MESSAGE:
            header = decode_header(PopHeader, request.ext)
            if header.consumerGroup == self.group:
                self.popped(broker, header, reply)
        elif request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            change = decode_header(ChangeInvisibleTimeHeader, request.ext)
            if change.consumerGroup == self.group:
                self.hidden(broker, change, reply)

    def popped(self, broker: "SecondaryBroker", header: PopHeader, reply: Reply) -> None:
        told = reply.header
        assert isinstance(told, PopResponseHeader)
        starts = {place: int(text) for place, text in entries(told.startOffsetInfo)}
        for place, text in entries(told.msgOffsetInfo):
            topic = retry_topic_of(header.topic, self.group, place[0])
            for offset in map(int, text.split(",")):
                where = Place(topic, int(place[1]), offset)
                if self.places.get(where) == broker.tenure:
                    text = f"{where} is handed out twice in one tenure"
                    raise Violation(self.rule, text, (broker.host.name,))
                if where in self.places:
                    broker.world.mark("pop.again_in_another_tenure")
                self.places[where] = broker.tenure
                ticket = Ticket(where, starts[place], told.popTime)
                self.hide(broker, ticket, told.invisibleTime)

    def keeps(self, broker: Broker, check_point: CheckPoint) -> None:
        one = check_point
        self.began[one.topic, one.queue_id, one.start, one.pop_time] = broker.host.now

    def hide(self, broker: "SecondaryBroker", ticket: Ticket, invisible_ms: int) -> None:
        place = ticket.place
        began = self.began[place.topic, place.queue_id, ticket.start, ticket.pop_time]
        self.held[ticket] = Held(broker.tenure, began + invisible_ms)

    def hidden(
        self, broker: "SecondaryBroker", header: ChangeInvisibleTimeHeader, reply: Reply
    ) -> None:
        told = reply.header
        assert isinstance(told, ChangeInvisibleTimeResponseHeader)
        old = ticket_of(header)
        self.took_ack(broker, old)
        new = Ticket(old.place, header.offset, told.popTime)
        self.hide(broker, new, told.invisibleTime)

    def took_ack(self, broker: "SecondaryBroker", ticket: Ticket) -> None:
        found = self.revived.get(ticket)
        if found is not None and found[0] == broker.tenure:
            entry = found[1]
            if entry.delivered >> entry.offsets.index(ticket.place.offset) & 1:
                text = f"{ticket} is acknowledged, and it was handed out again before"
                raise Violation(self.rule, text, (broker.host.name,))
        self.confirmed.setdefault(ticket, broker.tenure)

    def revives(self, broker: "SecondaryBroker", entry: OpenCheckPoint, offsets: list[int]) -> None:
        check_point, host = entry.check_point, broker.host
        for offset in offsets:
            place = Place(check_point.topic, check_point.queue_id, offset)
            ticket = Ticket(place, check_point.start, check_point.pop_time)
            taken = self.confirmed.get(ticket)
            if taken is not None and (not self.buffers or taken == broker.tenure):
                text = f"{ticket} was acknowledged, and comes back"
                raise Violation(self.rule, text, (host.name,))
            held = self.held.get(ticket)
            if held is not None and held.tenure == broker.tenure:
                if host.now + SLACK_MS < held.until_ms:
                    text = f"{ticket} comes back {held.until_ms - host.now} ms early"
                    raise Violation(self.rule, text, (host.name,))
            self.revived[ticket] = broker.tenure, entry

    # At the end ---------------------------------------------------------------------------------

    def finish(self, world: World) -> None:
        """Whatever is in the queues was handed out and acknowledged: nothing vanished."""
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, Broker) and host.process.store.fenced is None:
                left = self.left(host.process)
                if left:
                    text = f"never acknowledged, and gone: messages {sorted(left)[:20]}"
                    raise Violation(self.rule, text, (name,))
                return

    def left(self, broker: Broker) -> set[int]:
        """Messages that nobody tried to acknowledge in any of their places."""
        wanted: set[int] = set()
        done: set[int] = set()
        for base in TOPICS:
            for mark in (NORMAL, RETRY_V1, RETRY_V2):
                topic = retry_topic_of(base, self.group, mark)
                for queue in range(QUEUES):
                    for raw in read_all(broker.store, topic, queue):
                        number = number_of(raw)
                        wanted.add(number)
                        if Place(topic, queue, queue_offset_of(raw)) in self.asked_for:
                            done.add(number)
        return wanted - done
