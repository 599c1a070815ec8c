"""One run of two groups without controllers: a master is killed under load and comes back.

Slaves act as master (RIP-32). Clients send to the group with the faults, and consume in order, with
POP, delayed, timed and transactional messages, and from what is handed over to the other group.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tests.compat.peers import admin
from tests.compat.peers.group import Server
from tests.compat.peers.pairs import Pairs
from tests.compat.peers.process import wait_until
from tests.compat.peers.wire import call

from chaos.offsets import Offsets
from epochmq.base.errors import EpochError
from epochmq.client.aio import (
    ConsumeResult,
    PopConsumer,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from epochmq.client.core.send_policy import SendStatus
from epochmq.model import property_names as names
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue

ORDERED, DELAYED, TIMED, HALF, POP = KINDS = ("Ordered", "Delayed", "Timed", "Half", "Pop")
OPEN = "Open"
"""One transaction: older than all others at the kill, and silent until after the return."""
DIES, STAYS, ALSO = "broker-a", "broker-b", "broker-c"
QUEUES = 4
DELAY_LEVEL, DELAY_MS = 2, 5_000
PACE_S = 0.02
"""Between two sends of one kind."""
LISTEN_S = 0.08
"""Ordered and popping listeners take so long: a backlog waits when the master dies."""
DRAIN_S = 90.0
QUICK = {"transactionTimeOut": 3_000, "transactionCheckInterval": 2_000}
INVISIBLE_MS = 10_000
OPEN_AFTER_S = 5.0
"""It is asked for so long after the master's return."""
HANDED_OVER_S = 30
_RUNTIME_INFO = 28


@dataclass(frozen=True, slots=True)
class Plan:
    """Durations in seconds; with `target_dead_s` a master to which the acting master hands over
    is killed as well, while messages are on their way to it, and starts again after that time.
    """

    before_s: float = 12.0
    dead_s: float = 20.0
    after_s: float = 20.0
    target_dead_s: float = 0.0


@dataclass
class Kind:
    """What is known of the messages of one kind; times are monotonic ms."""

    sent: dict[str, float] = field(default_factory=dict)
    """Acknowledged ones."""
    came: dict[str, list[float]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    def took(self, messages: Sequence[StoredMessage]) -> None:
        for message in messages:
            self.came.setdefault(message.plain_body().decode(), []).append(now_ms())

    @property
    def lost(self) -> list[str]:
        return [name for name in self.sent if name not in self.came]

    @property
    def repeated(self) -> int:
        return sum(len(times) - 1 for times in self.came.values())

    def pause(self, since: float, until: float) -> float:
        """From `since` to the first that came."""
        times = sorted(at for times in self.came.values() for at in times)
        return next((at - since for at in times if since < at < until), float("nan"))

    def backlog_s(self, killed: float) -> float:
        """From then until all that was acknowledged before had come."""
        before = (name for name, at in self.sent.items() if at < killed)
        came = [self.came[name][0] for name in before if name in self.came]
        return (max(came, default=killed) - killed) / 1_000

    def late(self, delay_ms: int) -> list[float]:
        """How much after its time each came first, of those that both were sent and came."""
        pairs = ((at, self.came[name][0]) for name, at in self.sent.items() if name in self.came)
        return sorted(came - at - delay_ms for at, came in pairs)


def now_ms() -> float:
    return time.monotonic() * 1_000


class Run:
    """One run on started pairs."""

    def __init__(self, pairs: Pairs, plan: Plan) -> None:
        self.pairs = pairs
        self.plan = plan
        others = [master for name, master in pairs.masters.items() if name != DIES]
        self.targets: list[Server] = [*others, *pairs.alone.values()]
        """Masters that may be handed to; the first is the one to be killed, if one is."""
        self.kinds = {kind: Kind() for kind in (*KINDS, OPEN)}
        self.disorder = 0
        self.killed_ms = self.back_ms = 0.0
        self._last: dict[int, int] = {}
        self._offsets = Offsets(pairs, DIES, ORDERED, "G" + ORDERED, QUEUES)
        self._sending = True
        self._news = asyncio.Event()

    async def run(self) -> None:
        for broker in (self.pairs.masters[DIES], *self.targets):
            for kind in self.kinds:
                admin.create_topic(broker.address, kind, QUEUES)
        async with contextlib.AsyncExitStack() as stack:
            await self._consume(stack)
            await self._leave_open(stack)
            tasks = [asyncio.create_task(each) for each in (*self._loads(), self._watch_offsets())]
            await asyncio.sleep(self.plan.before_s)
            await self._kill()
            if self.plan.target_dead_s:
                await self._kill_target(self.targets[0])
            await asyncio.sleep(self.plan.dead_s)
            self.back_ms = now_ms()
            self.pairs.masters[DIES].start()
            await asyncio.sleep(self.plan.after_s)
            self._sending = False
            await asyncio.gather(*tasks)
            await self._drain()

    async def _kill(self) -> None:
        self.killed_ms = now_ms()
        self.pairs.masters[DIES].process.kill9()

    async def _kill_target(self, target: Server) -> None:
        """While messages are handed to it, or lie there: popped, half, to be delivered."""
        await asyncio.to_thread(wait_until, self._handed_over, HANDED_OVER_S, "nothing escaped")
        target.process.kill9()
        await asyncio.sleep(self.plan.target_dead_s)
        target.start()

    def _handed_over(self) -> bool:
        """Whether masters hold something of what the acting master could not write."""
        with contextlib.suppress(OSError, KeyError, ValueError):
            table = call(self.pairs.slaves[DIES].address, _RUNTIME_INFO, {}).json()["table"]
            return int(table["epochmqEscapeStored"]) + int(table["epochmqEscapeNear"]) > 0
        return False

    async def _drain(self) -> None:
        """Until everything came, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while any(kind.lost for kind in self.kinds.values()):
                    self._news.clear()
                    await self._news.wait()

    # Consuming -------------------------------------------------------------------------------

    async def _consume(self, stack: contextlib.AsyncExitStack) -> None:
        namesrv = self.pairs.namesrv_addr
        ordered = await stack.enter_async_context(
            PushConsumer(namesrv, "G" + ORDERED, ordered=True, start="first")
        )
        ordered.on_message(self._in_order)
        popping = await stack.enter_async_context(
            PopConsumer(namesrv, "G" + POP, start="first", invisible_ms=INVISIBLE_MS, concurrency=3)
        )
        popping.on_message(self._slowly)
        found: list[tuple[PushConsumer | PopConsumer, str]] = [(ordered, ORDERED), (popping, POP)]
        for consumer, kind in found:
            await consumer.subscribe(kind)
            await consumer.start()
        await self._consume_plain(stack)

    async def _consume_plain(self, stack: contextlib.AsyncExitStack) -> None:
        for kind in (DELAYED, TIMED, HALF, OPEN):
            plain = await stack.enter_async_context(
                PushConsumer(self.pairs.namesrv_addr, "G" + kind, start="first")
            )
            plain.on_message(self._taker(kind))
            await plain.subscribe(kind)
            await plain.start()

    def _taker(self, kind: str) -> Callable[[list[StoredMessage]], ConsumeResult]:
        def took(messages: list[StoredMessage]) -> ConsumeResult:
            self.kinds[kind].took(messages)
            self._news.set()
            return ConsumeResult.SUCCESS

        return took

    async def _slowly(self, messages: list[StoredMessage]) -> ConsumeResult:
        await asyncio.sleep(LISTEN_S * len(messages))
        self.kinds[POP].took(messages)
        self._news.set()
        return ConsumeResult.SUCCESS

    async def _in_order(self, messages: list[StoredMessage]) -> ConsumeResult:
        for message in messages:
            self._check_order(message.queue_id, message.plain_body().decode())
        await asyncio.sleep(LISTEN_S * len(messages))
        self.kinds[ORDERED].took(messages)
        self._news.set()
        return ConsumeResult.SUCCESS

    def _check_order(self, queue_id: int, body: str) -> None:
        number = int(body.partition("-")[2])
        last = self._last.get(queue_id, -1)
        if number < last and body not in self.kinds[ORDERED].came:  # no repeat of an old one
            self.disorder += 1
        self._last[queue_id] = max(number, last)

    async def _watch_offsets(self) -> None:
        while self._sending:
            await asyncio.to_thread(self._offsets.look)
            await asyncio.sleep(0.5)

    @property
    def went_back(self) -> Sequence[str]:
        """Committed offsets of the group that suffers that did."""
        return self._offsets.went_back

    # Sending ---------------------------------------------------------------------------------

    def _loads(self) -> list[Awaitable[None]]:
        plain = [self._plain(kind) for kind in KINDS if kind != HALF]
        return [*plain, self._halves()]

    async def _plain(self, kind: str) -> None:
        level = DELAY_LEVEL if kind == DELAYED else 0
        delay_ms = DELAY_MS if kind == TIMED else 0
        async with Producer(self.pairs.namesrv_addr, "P" + kind, retries=0) as producer:

            async def send(body: str, queue: MessageQueue) -> bool:
                message = Message(kind, body.encode(), delay_level=level, delay_ms=delay_ms)
                result = await producer.send(message, queue=queue, timeout_ms=1_000)
                return result.status is SendStatus.SEND_OK

            await self._send_all(kind, send)

    async def _halves(self) -> None:
        async with TransactionProducer(
            self.pairs.namesrv_addr, "P" + HALF, Silent(), topics=[HALF]
        ) as producer:

            async def send(body: str, queue: MessageQueue) -> bool:
                message = Message(HALF, body.encode())
                done = await producer.send_in_transaction(message, queue=queue, timeout_ms=1_000)
                return done.send.status is SendStatus.SEND_OK

            await self._send_all(HALF, send)
            await self._drain()  # it must be there to be asked

    async def _leave_open(self, stack: contextlib.AsyncExitStack) -> None:
        """A later end by the acting master is out of order (ADR 0063)."""
        plan = self.plan
        open_s = plan.before_s + plan.target_dead_s + plan.dead_s + OPEN_AFTER_S
        producer = await stack.enter_async_context(
            TransactionProducer(self.pairs.namesrv_addr, "P" + OPEN, Silent(), topics=[OPEN])
        )
        properties = {names.CHECK_IMMUNITY_TIME_IN_SECONDS: str(int(open_s))}
        message = Message(OPEN, OPEN.encode(), properties=properties)
        await producer.send_in_transaction(message, queue=MessageQueue(OPEN, DIES, 0))
        self.kinds[OPEN].sent[OPEN] = now_ms()

    async def _send_all(
        self, kind: str, send: Callable[[str, MessageQueue], Awaitable[bool]]
    ) -> None:
        """To the group that suffers alone, as long as it takes them."""
        book, number = self.kinds[kind], 0
        while self._sending:
            number += 1
            body, at = f"{kind}-{number}", now_ms()
            try:
                if await send(body, MessageQueue(kind, DIES, number % QUEUES)):
                    book.sent[body] = at
            except EpochError as error:
                book.refused[str(error)[:60]] += 1
                await asyncio.sleep(0.2)
            await asyncio.sleep(PACE_S)


class Silent:
    """Says nothing at first and commits when asked."""

    def execute_local(self, message: Message, arg: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check(self, message: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT
