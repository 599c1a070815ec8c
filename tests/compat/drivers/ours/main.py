"""The driver for our own asyncio client, which must work with any broker; see ../README.md."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from epochmq.auth.credentials import Credentials, outgoing_credentials
from epochmq.base.errors import EpochError
from epochmq.client.aio import (
    ConsumeResult,
    Producer,
    PullConsumer,
    PushConsumer,
    SendResult,
    Sql,
    TransactionProducer,
    TransactionState,
)
from epochmq.model.message import Message, StoredMessage

SHARDS = 3
SHOWN_CHARS = 64


class Options(dict[str, str]):
    """``--name value`` pairs."""

    @classmethod
    def parse(cls, words: list[str]) -> Options:
        pairs = zip(words[::2], words[1::2], strict=True)
        return cls({name.removeprefix("--"): value.replace("+", " ") for name, value in pairs})

    def number(self, name: str, otherwise: int = 0) -> int:
        return int(self.get(name, otherwise))

    def flag(self, name: str) -> bool:
        return self.get(name) == "true"


def emit(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}, separators=(",", ":")), flush=True)


def received(member: int, message: StoredMessage) -> None:
    body = message.plain_body()
    emit(
        "received",
        member=member,
        topic=message.topic,
        queue=message.queue_id,
        queue_offset=message.queue_offset,
        id=message.properties.get("UNIQ_KEY"),
        body=body.decode()[:SHOWN_CHARS],
        size=len(body),
        crc=zlib.crc32(body),
        tags=message.properties.get("TAGS"),
        keys=message.properties.get("KEYS"),
        reconsume=message.reconsume_times,
        at_ms=time.time_ns() // 1_000_000,
        props=dict(message.properties),
    )


def make(options: Options, i: int) -> Message:
    prefix = options.get("prefix", "m")
    tags = options.get("tags", "").split(",")
    return Message(
        options["topic"],
        f"{prefix}-{i}".ljust(options.number("size"), ".").encode(),
        tags=tags[i % len(tags)] or None,
        keys=(f"{prefix}-k-{i}",),
        properties={"n": str(i), "color": ("red", "blue")[i % 2], "note": "snow 雪"},
        delay_level=options.number("delay"),
    )


def report(body: bytes, result: SendResult) -> None:
    emit(
        "sent",
        status=result.status.name if result.status.name != "OK" else "SEND_OK",
        id=result.msg_id,
        offset_id=result.offset_msg_id,
        queue=result.queue.queue_id,
        queue_offset=result.queue_offset,
        body=body.decode()[:SHOWN_CHARS],
    )


async def send_until(options: Options) -> None:
    ordered = options.get("kind") == "ordered"
    async with Producer(options["namesrv"], options.get("group", "PG_driver")) as producer:
        i = 0
        while not Path(options["until"]).exists():
            message = make(options, i)
            body = message.body
            try:
                if ordered:
                    report(body, await producer.send_ordered(message, f"shard-{i % SHARDS}"))
                else:
                    report(body, await producer.send(message))
            except EpochError as error:
                emit("failed", body=body.decode()[:SHOWN_CHARS], error=str(error))
            i += 1
            await asyncio.sleep(options.number("pause-ms") / 1000)


async def send(options: Options) -> None:
    if "until" in options:
        await send_until(options)
        return
    messages = [make(options, i) for i in range(options.number("count", 1))]
    kind = options.get("kind", "sync")
    async with Producer(options["namesrv"], options.get("group", "PG_driver")) as producer:

        async def one(i: int, message: Message) -> None:
            body = message.body
            if kind == "oneway":
                await producer.send_oneway(message)
                emit("sent", status="ONEWAY", body=body.decode()[:SHOWN_CHARS])
            elif kind == "ordered":
                report(body, await producer.send_ordered(message, f"shard-{i % SHARDS}"))
            else:
                report(body, await producer.send(message))

        if kind == "batch":
            result = await producer.send_batch(messages)
            for message in messages:
                report(message.body, result)
        elif kind == "async":
            await asyncio.gather(*(one(i, message) for i, message in enumerate(messages)))
        else:
            for i, message in enumerate(messages):
                await one(i, message)


class Listener:
    """Says what the options say; with "mixed" number i ends by i mod 4: at once by a commit, by a
    rollback, and when a broker asks by a commit, by a rollback."""

    LOCAL = ("commit", "rollback", "unknown", "unknown")
    CHECK = ("commit", "rollback", "commit", "rollback")

    def __init__(self, options: Options) -> None:
        self._local, self._check = options.get("local", "commit"), options.get("check", "unknown")
        self.asked = asyncio.Semaphore(0)

    def execute_local(self, message: Message, arg: Any) -> TransactionState:
        return self._state(self._local, self.LOCAL, message.properties["n"])

    def check(self, message: StoredMessage) -> TransactionState:
        self.asked.release()
        emit(
            "checked",
            body=message.plain_body().decode()[:SHOWN_CHARS],
            id=message.msg_id,
            times=message.properties.get("TRANSACTION_CHECK_TIMES"),
        )
        return self._state(self._check, self.CHECK, message.properties["n"])

    def _state(self, word: str, mixed: tuple[str, ...], number: str) -> TransactionState:
        name = mixed[int(number) % 4] if word == "mixed" else word
        return TransactionState[name.upper()]


async def transact(options: Options) -> None:
    listener = Listener(options)
    group, topics = options.get("group", "PG_transactions"), (options["topic"],)
    async with TransactionProducer(options["namesrv"], group, listener, topics=topics) as producer:
        sends = options.get("send", "true") == "true"
        until = Path(options["until"]) if "until" in options else None
        i = 0
        while sends and (not until.exists() if until else i < options.number("count", 1)):
            message = make(options, i)
            try:
                done = await producer.send_in_transaction(message, i)
                report(message.body, done.send)
            except EpochError as error:
                if until is None:
                    raise
                emit("failed", body=message.body.decode()[:SHOWN_CHARS], error=str(error))
            i += 1
            await asyncio.sleep(options.number("pause-ms") / 1000)
        async with asyncio.timeout(options.number("timeout-ms", 60_000) / 1000):
            for _ in range(options.number("wait-checks")):
                await listener.asked.acquire()
        await asyncio.sleep(options.number("linger-ms", 300) / 1000)


async def push(options: Options) -> None:
    count = options.number("count")
    seen: asyncio.Queue[None] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        for member in range(options.number("members", 1)):
            await stack.enter_async_context(await start_member(options, member, seen))
            emit("started", member=member)
        try:
            async with asyncio.timeout(options.number("timeout-ms", 30_000) / 1000):
                for _ in range(count or 1 << 60):
                    await seen.get()
        except TimeoutError:
            if count:
                raise
        await asyncio.sleep(options.number("linger-ms") / 1000)


async def start_member(options: Options, member: int, seen: asyncio.Queue[None]) -> PushConsumer:
    consumer = PushConsumer(
        options["namesrv"],
        options["group"],
        model="BROADCASTING" if options.flag("broadcast") else "CLUSTERING",
        ordered=options.flag("order"),
        start="first",
        max_reconsume_times=options.number("max-reconsume") or None,
        offsets_dir=Path.home() / f"offsets-{member}-{time.time_ns()}",
    )

    def take(messages: list[StoredMessage]) -> ConsumeResult:
        for message in messages:
            received(member, message)
            seen.put_nowait(None)
        return ConsumeResult.LATER if options.flag("fail") else ConsumeResult.SUCCESS

    consumer.on_message(take)
    sql = options.get("sql")
    await consumer.subscribe(options["topic"], Sql(sql) if sql else options.get("filter", "*"))
    await consumer.start()
    return consumer


async def pull(options: Options) -> None:
    count, seen = options.number("count"), 0
    async with PullConsumer(options["namesrv"], options["group"]) as consumer:
        emit("started", member=0)
        for queue in sorted(await consumer.queues(options["topic"])):
            offset = await consumer.min_offset(queue)
            while offset < await consumer.max_offset(queue):
                result = await consumer.pull(queue, offset)
                for message in result.messages:
                    received(0, message)
                seen += len(result.messages)
                offset = result.next_offset
            await consumer.commit(queue, offset)
    if seen < count:
        raise TimeoutError(f"{count - seen} messages did not come")


SCENARIOS = {"send": send, "transact": transact, "push": push, "pull": pull}


async def run(words: list[str]) -> bool:
    error = ""
    options = Options.parse(words[1:])
    user = Credentials(options["user"], options["secret"]) if "user" in options else None
    outgoing_credentials.set(user)
    try:
        await SCENARIOS[words[0]](options)
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    emit("end", scenario=words[0], ok=not error, error=error)
    return not error


async def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    if len(sys.argv) > 1:
        return 0 if await run(sys.argv[1:]) else 1
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.split():
            await run(line.split())
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
