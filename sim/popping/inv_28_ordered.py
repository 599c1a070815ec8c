"""INV-28 of ordered pops: one batch of a queue is out at a time, in order, known to replicas first.

Heard at the broker: what it takes of a queue for whom, what it answers, what is acknowledged or
hidden for longer. A batch is in a consumer's hands from its answer on until each message of it is
acknowledged or over; meanwhile no other is taken of the queue, but for the same attempt. A batch
begins at the first message that nobody acknowledged and leaves none out.

A failover changes none of it for whoever knew of the batch, or of the acknowledgement, when the
consumer was told (ADR 0055): the replicas that watched, unless they were late. Who begins to lead
and did not know, or was started again since, is forgiven.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochmq.broker.pop.ordered_pop import Orders
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.state.stamps import TAKEN_WAIT_MS
from epochmq.client.core.pop_state import ORDERED_REVIVE_QUEUE
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import ChangeInvisibleTimeHeader, PopHeader, PopResponseHeader
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS
from sim.kernel.world import MS, World
from sim.secondary.pop_tickets import Place, Ticket, acked_by, entries, ticket_of

if TYPE_CHECKING:
    from sim.popping.popping_broker import PoppingBroker

SLACK_US = 10 * MS
"""Clocks of whole ms that drift."""
Knower = tuple[str, int]
"""A broker's host and incarnation."""


@dataclass
class Out:
    """One batch of a queue; times are true ones, µs."""

    tenure: tuple[str, int, int]
    attempt_id: str | None
    pop_time: int
    taken_us: int
    until_us: dict[int, int]
    """Offset -> when the message is visible again."""
    watchers: dict[int, Knower]
    """By session: the replicas that must know of it before it is told."""
    told: bool = False
    knew: set[Knower] = field(default_factory=set)
    forgiven: bool = False
    """Who leads now did not know of it."""


class PoppedInOrder(Checker):
    """Everything that was taken and acknowledged in order by one group."""

    rule = "INV-28"

    def __init__(self, group: str) -> None:
        self.group = group
        self.out: dict[QueueKey, list[Out]] = {}
        self.asked_for: set[Place] = set()
        """Acknowledgements that arrived; one without an answer may have been taken."""
        self.done: dict[Place, set[Knower]] = {}
        """What was acknowledged, and who knew when the consumer heard so."""
        self.hiding: dict[Ticket, int] = {}

    # What is taken ------------------------------------------------------------------------------

    def took_in_order(
        self,
        broker: "PoppingBroker",
        key: QueueKey,
        attempt_id: str | None,
        pop: tuple[int, int],
        offsets: Sequence[int],
    ) -> None:
        now = broker.world.time_us
        until = dict.fromkeys(offsets, now + pop[1] * MS)
        batch = Out(broker.tenure, attempt_id, pop[0], now, until, broker.order_watchers())
        self.check_order(broker, key, offsets)
        earlier = self.out.setdefault(key, [])
        for other in earlier:
            if other.told and not (attempt_id and attempt_id == other.attempt_id):
                self.check_apart(broker, key, other, batch)
        earlier.append(batch)
        del earlier[:-6]

    def check_order(self, broker: Broker, key: QueueKey, offsets: Sequence[int]) -> None:
        if list(offsets) != sorted(set(offsets)):
            raise Violation(self.rule, f"{key} is out of order: {offsets}", (broker.host.name,))
        before = [self.place(key, offset) for offset in range(offsets[-1]) if offset not in offsets]
        left_out = [place.offset for place in before if place not in self.asked_for]
        if left_out:
            text = f"{key}: {left_out[:20]} are left out before {list(offsets)}"
            raise Violation(self.rule, text, (broker.host.name,))
        again = [offset for offset in offsets if self.place(key, offset) in self.done]
        if again:
            text = f"{key}: {again} were acknowledged, and are handed out again"
            raise Violation(self.rule, text, (broker.host.name,))

    def check_apart(self, broker: "PoppingBroker", key: QueueKey, old: Out, new: Out) -> None:
        """`old` is in a consumer's hands: nobody may have `new`."""
        now = broker.world.time_us
        held = [offset for offset, until in old.until_us.items() if until > now + SLACK_US]
        held = [offset for offset in held if self.place(key, offset) not in self.asked_for]
        if not held:
            return
        if old.forgiven and old.tenure != new.tenure:
            broker.world.mark("ordered.two_out_forgiven")
            return
        text = f"{key}: {list(new.until_us)} are taken while {held} are out"
        raise Violation(self.rule, text, (broker.host.name,))

    # What is told -------------------------------------------------------------------------------

    def answers(self, broker: "PoppingBroker", request: Command, reply: Reply) -> None:
        if reply.code != 0:
            return
        for ticket in acked_by(request, self.group):
            self.took_ack(broker, ticket)
        if request.code == RequestCode.POP_MESSAGE:
            header = decode_header(PopHeader, request.ext)
            if header.consumerGroup == self.group:
                self.told(broker, header, reply)
        elif request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            change = decode_header(ChangeInvisibleTimeHeader, request.ext)
            if change.consumerGroup == self.group:
                self.hidden(ticket_of(change))

    def told(self, broker: "PoppingBroker", header: PopHeader, reply: Reply) -> None:
        answer = reply.header
        assert isinstance(answer, PopResponseHeader)
        if answer.reviveQid != ORDERED_REVIVE_QUEUE:
            raise Violation(self.rule, "a pop in order got a check point", (broker.host.name,))
        for (_, queue), text in entries(answer.msgOffsetInfo):
            key = QueueKey(self.group, header.topic, int(queue))
            offsets = [int(word) for word in text.split(",")]
            batch = self.find(broker, key, answer.popTime, offsets)
            batch.told = True
            batch.knew = self.knowing(broker, _knows_batch(key, batch))
            broker.world.mark("covered.ordered")
            later = self.out[key][self.out[key].index(batch) + 1 :]
            if not later:
                self.check_known(broker, key, batch)
            for other in later:
                if not (batch.attempt_id and batch.attempt_id == other.attempt_id):
                    self.check_apart(broker, key, batch, other)

    def find(
        self, broker: "PoppingBroker", key: QueueKey, pop_time: int, offsets: list[int]
    ) -> Out:
        for batch in reversed(self.out.get(key, [])):
            if (batch.pop_time, list(batch.until_us)) == (pop_time, offsets):
                if batch.tenure == broker.tenure:
                    return batch
        text = f"{key}: {offsets} are told, and nobody took them in this role"
        raise Violation(self.rule, text, (broker.host.name,))

    def check_known(self, broker: "PoppingBroker", key: QueueKey, batch: Out) -> None:
        """Who watched when it was taken, and still does, knows of it or is late."""
        world = broker.world
        if world.time_us - batch.taken_us >= TAKEN_WAIT_MS * MS - SLACK_US:
            world.mark("ordered.told_late")
            return
        watching = broker.order_watchers()
        for session, knower in batch.watchers.items():
            process = world.hosts[knower[0]].process
            if watching.get(session) != knower or world.hosts[knower[0]].incarnation != knower[1]:
                continue
            if process is not None and knower not in batch.knew:
                text = f"{key}: {list(batch.until_us)} are told before {knower[0]} knows"
                raise Violation(self.rule, text, (broker.host.name,))
            world.mark("covered.ordered_known")

    def knowing(
        self, broker: "PoppingBroker", knows: Callable[["PoppingBroker"], bool]
    ) -> set[Knower]:
        """This broker, and whoever knows as well."""
        found = {(broker.host.name, broker.host.incarnation)}
        for host in broker.world.hosts.values():
            process = host.process
            if isinstance(process, Broker) and knows(process):  # type: ignore[arg-type]
                found.add((host.name, host.incarnation))
        return found

    # Acknowledging and hiding -------------------------------------------------------------------

    def asked_in_order(self, broker: "PoppingBroker", request: Command) -> None:
        now = broker.world.time_us
        for ticket in acked_by(request, self.group):
            self.asked_for.add(ticket.place)
        if request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            change = decode_header(ChangeInvisibleTimeHeader, request.ext)
            if change.consumerGroup == self.group:
                ticket = ticket_of(change)
                until = self.hiding[ticket] = now + change.invisibleTime * MS
                for batch in self.batches_of(ticket):
                    offset = ticket.place.offset
                    batch.until_us[offset] = min(until, batch.until_us[offset])

    def took_ack(self, broker: "PoppingBroker", ticket: Ticket) -> None:
        key = QueueKey(self.group, ticket.place.topic, ticket.place.queue_id)
        offset = ticket.place.offset
        taken = [batch for batch in self.out.get(key, []) if batch.tenure == broker.tenure]
        if taken and taken[-1].pop_time != ticket.pop_time and offset in taken[-1].until_us:
            text = f"{ticket} is acknowledged, and it was handed out again before"
            raise Violation(self.rule, text, (broker.host.name,))
        broker.world.mark("covered.ordered_acked")

        def knows(process: "PoppingBroker") -> bool:
            if process.owned.offsets.get(*key) > offset:
                return True
            batch = _batches(process.owned.pop.orders).get(key)
            return batch is not None and (
                offset < batch.offsets[0] or offset in batch.acked_offsets()
            )

        self.done[ticket.place] = self.knowing(broker, knows)

    def hidden(self, ticket: Ticket) -> None:
        """Longer than it was: only this broker's word counts, others may know the earlier time."""
        until = self.hiding.get(ticket)
        for batch in self.batches_of(ticket):
            offset = ticket.place.offset
            if until is not None and until > batch.until_us[offset]:
                batch.until_us[offset] = until
                batch.knew = {batch.tenure[:2]}

    def batches_of(self, ticket: Ticket) -> Iterable[Out]:
        topic, queue_id, offset = ticket.place
        for batch in self.out.get(QueueKey(self.group, topic, queue_id), []):
            if batch.pop_time == ticket.pop_time and offset in batch.until_us:
                yield batch

    # Who leads ----------------------------------------------------------------------------------

    def master_began(self, broker: Broker, _switch: object) -> None:
        """What the new master cannot know is forgiven."""
        knower = broker.host.name, broker.host.incarnation
        for batches in self.out.values():
            for batch in batches:
                batch.forgiven = batch.forgiven or knower not in batch.knew
        self.done = {place: knew for place, knew in self.done.items() if knower in knew}

    # At the end ---------------------------------------------------------------------------------

    def finish(self, world: World) -> None:
        """Each message was acknowledged by somebody: none was left out."""
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, Broker) and host.process.store.fenced is None:
                for topic in TOPICS:
                    for queue in range(QUEUES):
                        _, high = host.process.store.queue_bounds(topic, queue)
                        wanted = {Place(topic, queue, offset) for offset in range(high)}
                        if not wanted <= self.asked_for:
                            left = sorted(p.offset for p in wanted - self.asked_for)
                            text = f"{topic}/{queue}: {left[:20]} were never acknowledged"
                            raise Violation(self.rule, text, (name,))
                return

    @staticmethod
    def place(key: QueueKey, offset: int) -> Place:
        return Place(key.topic, key.queue_id, offset)


def _knows_batch(key: QueueKey, batch: Out) -> Callable[["PoppingBroker"], bool]:
    def knows(process: "PoppingBroker") -> bool:
        found = _batches(process.owned.pop.orders).get(key)
        return found is not None and (found.pop_time, found.offsets) == (
            batch.pop_time,
            list(batch.until_us),
        )

    return knows


def _batches(orders: Orders):  # type: ignore[no-untyped-def]
    return orders._batches
