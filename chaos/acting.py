"""`python -m chaos acting`: a master without controllers is killed under load and comes back.

Two groups of master and slave, slaves that stand in (RIP-32); clients send to the group that will
suffer, and consume in order, with POP, delayed and transactional messages. The same run on
RocketMQ's brokers (`--peer java`), same settings, same clients.
"""

import argparse
import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tests.compat.peers import admin
from tests.compat.peers.group import JAVA, OURS
from tests.compat.peers.pairs import Pairs

from chaos.figures import percentile
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
from epochmq.model.message import Message, StoredMessage
from epochmq.model.queue import MessageQueue

ORDERED, DELAYED, HALF, POP = KINDS = ("Ordered", "Delayed", "Half", "Pop")
DIES, STAYS = "broker-a", "broker-b"
QUEUES = 4
DELAY_LEVEL, DELAY_MS = 2, 5_000
BEFORE_S, DEAD_S, AFTER_S = 12.0, 20.0, 20.0
PACE_S = 0.02
"""Between two sends of one kind."""
LISTEN_S = 0.08
"""Ordered and popping listeners take so long: a backlog waits when the master dies."""
DRAIN_S = 90.0
QUICK = {"transactionTimeOut": 3_000, "transactionCheckInterval": 2_000}
INVISIBLE_MS = 10_000


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

    def late(self, delay_ms: int) -> list[float]:
        """How much after its time each came first, of those that both were sent and came."""
        pairs = ((at, self.came[name][0]) for name, at in self.sent.items() if name in self.came)
        return sorted(came - at - delay_ms for at, came in pairs)


def now_ms() -> float:
    return time.monotonic() * 1_000


class Run:
    """One run on started pairs."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.kinds = {kind: Kind() for kind in KINDS}
        self.disorder = 0
        self.went_back: list[str] = []
        self.killed_ms = self.back_ms = 0.0
        self._last: dict[int, int] = {}
        self._offsets: dict[int, int] = {}
        self._sending = True
        self._news = asyncio.Event()

    async def run(self) -> None:
        for name in (DIES, STAYS):
            for kind in KINDS:
                admin.create_topic(self.pairs.masters[name].address, kind, QUEUES)
        async with contextlib.AsyncExitStack() as stack:
            await self._consume(stack)
            tasks = [asyncio.create_task(each) for each in (*self._loads(), self._watch_offsets())]
            await asyncio.sleep(BEFORE_S)
            master = self.pairs.masters[DIES]
            self.killed_ms = now_ms()
            master.process.kill9()
            await asyncio.sleep(DEAD_S)
            self.back_ms = now_ms()
            master.start()
            await asyncio.sleep(AFTER_S)
            self._sending = False
            await asyncio.gather(*tasks)
            await self._drain()

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
        for kind in (DELAYED, HALF):
            plain = await stack.enter_async_context(
                PushConsumer(namesrv, "G" + kind, start="first")
            )
            plain.on_message(self._taker(kind))
            found.append((plain, kind))
        for consumer, kind in found:
            await consumer.subscribe(kind)
            await consumer.start()

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
            body = message.plain_body().decode()
            number = int(body.partition("-")[2])
            last = self._last.get(message.queue_id, -1)
            if number < last and body not in self.kinds[ORDERED].came:  # no repeat of an old one
                self.disorder += 1
            self._last[message.queue_id] = max(number, last)
        await asyncio.sleep(LISTEN_S * len(messages))
        self.kinds[ORDERED].took(messages)
        self._news.set()
        return ConsumeResult.SUCCESS

    async def _watch_offsets(self) -> None:
        """Committed offsets of the group that suffers, wherever it is served, never go back."""
        while self._sending:
            members = self.pairs.members(DIES)
            if members:
                await asyncio.to_thread(self._look_at_offsets, members[min(members)])
            await asyncio.sleep(0.5)

    def _look_at_offsets(self, address: str) -> None:
        for queue in range(QUEUES):
            with contextlib.suppress(OSError, AssertionError, json.JSONDecodeError, KeyError):
                offset = admin.committed(address, ORDERED, "G" + ORDERED, queue)
                if offset is None:
                    continue
                before = self._offsets.get(queue, 0)
                if offset < before:
                    self.went_back.append(f"queue {queue} at {address}: {before} -> {offset}")
                self._offsets[queue] = max(before, offset)

    # Sending ---------------------------------------------------------------------------------

    def _loads(self) -> list[Awaitable[None]]:
        return [self._plain(ORDERED, 0), self._plain(POP, 0), self._plain(DELAYED, DELAY_LEVEL),
                self._halves()]  # fmt: skip

    async def _plain(self, kind: str, level: int) -> None:
        async with Producer(self.pairs.namesrv_addr, "P" + kind, retries=0) as producer:

            async def send(body: str, queue: MessageQueue) -> bool:
                message = Message(kind, body.encode(), delay_level=level)
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


def report(run: Run, peer: str) -> str:
    """The run on one page."""
    lines = [f"{peer}: master killed after {BEFORE_S:.0f} s, back after {DEAD_S:.0f} s more"]
    for name, kind in run.kinds.items():
        pause = kind.pause(run.killed_ms, run.back_ms) / 1_000
        lines.append(
            f"  {name:<8} acknowledged {len(kind.sent):>5}, lost {len(kind.lost):>4}, delivered"
            f" again {kind.repeated:>4}, first after the kill {pause:6.2f} s"
        )
    late = run.kinds[DELAYED].late(DELAY_MS)
    if late:
        lines.append(
            f"  delayed ones late by p50 {percentile(late, 50):.0f} ms,"
            f" p99 {percentile(late, 99):.0f} ms, at most {late[-1]:.0f} ms"
        )
    lines.append(f"  out of order {run.disorder}, committed offsets gone back {len(run.went_back)}")
    return "\n".join(lines + [f"    {each}" for each in run.went_back[:5]])


def main(argv: Sequence[str]) -> None:
    """One run; exit code 1 when something was lost, out of order or went back."""
    parser = argparse.ArgumentParser(prog="python -m chaos acting", description=__doc__)
    parser.add_argument("--peer", choices=("epochmq", "java"), default="epochmq")
    args = parser.parse_args(argv)
    with Pairs(JAVA if args.peer == "java" else OURS, broker_config=QUICK) as pairs:
        run = Run(pairs)
        asyncio.run(run.run())
    print(report(run, args.peer))
    bad = run.disorder or run.went_back or any(kind.lost for kind in run.kinds.values())
    raise SystemExit(1 if bad and args.peer == "epochmq" else 0)
