"""A topic that is deleted and recreated while its messages are pending: clients and a checker.

Its messages have their own numbers, and a separate group pops them, so that the records of other
topics are not affected. Messages sent before the deletion may or may not arrive; the queues and
timers in which they waited must continue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.client.core.pop_state import PopHandle, complete, handle_of
from epochmq.model import record
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import Header, decode_header
from epochmq.wire.headers.pop_headers import AckHeader, PopHeader, PopResponseHeader
from epochmq.wire.headers.send_headers import CheckTransactionStateHeader
from epochmq.wire.headers.topic_headers import CreateTopicHeader, DeleteTopicHeader
from sim.controller.member import GROUP
from sim.group.brokers import Broker
from sim.kernel.checker import Checker
from sim.kernel.violation import Violation
from sim.kernel.workload import QUEUES, TOPICS, number_of, read_all, records
from sim.kernel.world import MS, World
from sim.secondary.secondary_clients import CALL_US, TRIES, SecondaryClient, end_of

if TYPE_CHECKING:
    from sim.scenarios.s34_topic_recreated import Story
    from sim.secondary.secondary_broker import SecondaryBroker

RECREATED = "AGAIN"
CONSUMERS = "NG"
FIRST = 1_000_000
"""Numbers of its messages begin here."""


@dataclass
class Sent:
    """One message to the topic."""

    queue: int
    kind: str
    generation: int
    acked: bool = False


class RecreatedTopic(Checker):
    """What was sent to the topic, came out of where it waited, and was popped."""

    rule = "INV-28"

    def __init__(self) -> None:
        self.sends: dict[int, Sent] = {}
        self.generation = 0
        """How often the topic was made; what is sent while it is not there counts as before."""
        self.out: set[int] = set()
        self.popped: set[int] = set()

    def send(self, queue: int, kind: str) -> int:
        number = FIRST + len(self.sends)
        self.sends[number] = Sent(queue, kind, self.generation)
        return number

    def accepted(self, kinds: Sequence[str]) -> set[int]:
        return {n for n, sent in self.sends.items() if sent.acked and sent.kind in kinds}

    @property
    def waiting(self) -> set[int]:
        """Delayed ones, and halves, that did not come out of where they wait.

        A master that died with an answer under way may have put them: who was given one knows.
        """
        return self.accepted(("level", "timer", "half")) - self.out - self.popped

    @property
    def lasting(self) -> set[int]:
        """What was acknowledged of the topic as it is now."""
        return {n for n, s in self.sends.items() if s.acked and s.generation == self.generation}

    def moved_on(
        self,
        broker: "SecondaryBroker",
        drafts: Sequence[Draft],
        outcomes: Sequence[WriteOutcome],
        _origin: Origin,
        _tenure: object,
    ) -> None:
        for draft, outcome in zip(drafts, outcomes, strict=True):
            if draft.topic not in (RECREATED, *TOPICS):
                continue
            number = int(bytes(draft.body).partition(b":")[0])
            wanted = self.sends.get(number)
            if (draft.topic == RECREATED) != (wanted is not None) or (
                wanted is not None and wanted.queue != draft.queue_id
            ):
                text = f"message {number} goes to {draft.topic}/{draft.queue_id}"
                raise Violation("INV-21", text, (broker.host.name,))
            if outcome is WriteOutcome.STORED:
                self.out.add(number)

    def got(self, number: int, name: str) -> None:
        """A consumer was given a message."""
        if number not in self.sends:
            raise Violation(
                "INV-21", f"{RECREATED} gives message {number} of another topic", (name,)
            )
        self.popped.add(number)

    def finish(self, world: World) -> None:
        for name, host in sorted(world.hosts.items()):
            if isinstance(host.process, Broker) and host.process.store.fenced is None:
                there = {
                    number_of(raw)
                    for queue in range(QUEUES)
                    for raw in read_all(host.process.store, RECREATED, queue)
                }
                lost = sorted(self.lasting - there)
                if lost:
                    raise Violation("INV-20", f"{RECREATED} lacks {lost[:20]}", (name,))
        missed = sorted(self.lasting - self.popped)
        if missed:
            raise Violation(self.rule, f"{RECREATED}: nobody was given {missed[:20]}")


class RecreatedTopicClient(SecondaryClient):
    """Sends to the topic and pops it, besides what others do."""

    history: "Story"

    # The topic itself ---------------------------------------------------------------------------

    def ask(self, code: RequestCode, header: Header, done: Callable[[], None]) -> None:
        """Ask whoever is master, until it is done."""
        target = self.target
        name = self.history.cluster.broker_names[target]

        def answered(answer: Command) -> None:
            if answer.code == 0:
                done()
            else:
                again()

        def again(_lost: bool = True) -> None:
            self.turn_from(target)
            self.world.after(20 * MS, "ask", lambda: self.ask(code, header, done), self.host)

        self.rpc.call(name, request(code, header), CALL_US, answered, again)

    def make(self, done: Callable[[], None]) -> None:
        header = CreateTopicHeader(
            topic=RECREATED,
            defaultTopic="TBW102",
            readQueueNums=QUEUES,
            writeQueueNums=QUEUES,
            perm=6,
            topicFilterType="SINGLE_TAG",
            order=False,
        )
        self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header, done)

    def delete(self, done: Callable[[], None]) -> None:
        self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=RECREATED), done)

    # Sending ------------------------------------------------------------------------------------

    def send_to_recreated(self, kind: str) -> None:
        history, chance = self.history, self.chance
        queue = chance.randrange(QUEUES)
        number = history.recreated.send(queue, kind)
        fields = {"number": str(number), "topic": RECREATED, "queue": str(queue)}
        if kind == "level":
            fields["level"] = str(1 + chance.randrange(len(history.delays_ms)))
        elif kind == "timer":
            fields |= {"timer": "1", "properties": "TIMER_DELAY_MS\x01400\x02"}
        elif kind == "half":
            fields |= {"half": "1", "born": str(self.host.wall)}
        target, name = self.target, history.cluster.broker_names[self.target]

        def answered(answer: Command) -> None:
            if answer.code != 0:
                self.turn_from(target)
                return
            history.recreated.sends[number].acked = True
            ext = answer.ext or {}
            if kind == "half" and chance.randrange(2):
                place = int(ext["queueOffset"]), int(ext["offset"])
                end = end_of(number, place, "commit", checked=False)
                self.rpc.call(name, end, CALL_US, lambda _answer: None, lambda _lost: None)

        command = request(RequestCode.SEND_MESSAGE, fields, b"%d:again" % number)
        self.rpc.call(
            name,
            command,
            history.send_timeout_us,
            answered,
            lambda _lost: self.turn_from(target),
        )

    def _asked(self, name: str, command: Command) -> None:
        """All its transactions are committed, those of a topic that is gone as well."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            header = decode_header(CheckTransactionStateHeader, command.ext)
            number = int((header.transactionId or "k-1")[1:])
            if number >= FIRST:
                place = header.tranStateTableOffset, header.commitLogOffset
                end = end_of(number, place, "commit", checked=True)
                self.rpc.call(name, end, CALL_US, lambda _answer: None, lambda _lost: None)
                return
        super()._asked(name, command)

    # POP ----------------------------------------------------------------------------------------

    def pop_recreated(self) -> None:
        """Take some; most are never acknowledged until the end."""
        history, target = self.history, self.target
        name = history.cluster.broker_names[target]
        invisible = self.chance.choice(history.invisible_ms)
        header = PopHeader(CONSUMERS, RECREATED, -1, 8, invisible, 0, 0, 0)

        def answered(answer: Command) -> None:
            if answer.code == 0:
                told = decode_header(PopResponseHeader, answer.ext)
                found = [record.decode(raw) for raw in records([memoryview(bytes(answer.body))])]
                complete(found, told, topic=RECREATED, group=CONSUMERS, broker_name=GROUP)
                for message in found:
                    self.world.mark("covered.popped_recreated")
                    history.recreated.got(int(message.body.partition(b":")[0]), name)
                    if history.draining or self.chance.randrange(4) == 0:
                        self._ack_recreated(handle_of(message), name, TRIES)
            elif answer.code in (1, 11, 14):
                self.turn_from(target)

        command = request(RequestCode.POP_MESSAGE, header)
        self.rpc.call(name, command, CALL_US, answered, lambda _lost: self.turn_from(target))

    def _ack_recreated(self, handle: PopHandle, name: str, tries: int) -> None:
        real = handle.real_topic(RECREATED, CONSUMERS)
        header = AckHeader(CONSUMERS, real, handle.queue_id, str(handle), handle.offset)

        def again(_lost: bool = True) -> None:
            if tries > 1:
                other = self.chance.choice(self.history.cluster.broker_names)
                self.world.after(
                    50 * MS, "ack", lambda: self._ack_recreated(handle, other, tries - 1), self.host
                )

        def answered(answer: Command) -> None:
            if answer.code not in (0, 13, 17, 208):
                again()

        self.rpc.call(name, request(RequestCode.ACK_MESSAGE, header), CALL_US, answered, again)
