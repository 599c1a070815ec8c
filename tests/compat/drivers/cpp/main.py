"""The driver for the C++ client (PyPI's ``rocketmq`` carries librocketmq); see ../README.md.

It runs in an environment of its own, without the project. The client offers no SQL92 filter, no
choice of the first offset (it begins at the end) and no maximum of retries; transactions it offers
in C++ only (``extras.py``).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from extras import STATES, STATUSES, TransactionProducer, refreshed
from rocketmq.client import Message, Producer, PullConsumer, PushConsumer
from rocketmq.ffi import MessageModel

SHARDS = 3
SHOWN_CHARS = 64
FOR_EVER = 1 << 62
# A producer's first heartbeat leaves 10 ms after its start, from a thread of its own; a send that
# connects at that moment is given up at once, as one without a route.
SETTLED_S = 0.2
PROPERTIES = ("n", "color", "note", "UNIQ_KEY", "KEYS", "TAGS", "DELAY", "RETRY_TOPIC")

# The C++ library writes to standard output; only the copy made here carries our lines.
_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
_lock = threading.Lock()


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
    with _lock:
        _out.write(json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n")
        _out.flush()


def text(value: bytes | str | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def received(member: int, message: Any) -> None:
    body = message.body
    found = {name: text(message.get_property(name)) for name in PROPERTIES}
    emit(
        "received",
        member=member,
        topic=message.topic,
        queue=message.queue_id,
        queue_offset=message.queue_offset,
        id=message.id,
        body=body.decode()[:SHOWN_CHARS],
        size=len(body),
        crc=zlib.crc32(body),
        tags=text(message.tags),
        keys=text(message.keys),
        reconsume=message.reconsume_times,
        at_ms=time.time_ns() // 1_000_000,
        props={name: value for name, value in found.items() if value},
    )


def make(options: Options, i: int) -> tuple[Message, str]:
    prefix = options.get("prefix", "m")
    body = f"{prefix}-{i}".ljust(options.number("size"), ".")
    message = Message(options["topic"])
    message.set_body(body)
    tags = options.get("tags", "").split(",")
    if tags[0]:
        message.set_tags(tags[i % len(tags)])
    message.set_keys(f"{prefix}-k-{i}")
    message.set_property("n", str(i))
    message.set_property("color", ("red", "blue")[i % 2])
    message.set_property("note", "snow 雪")
    if options.number("delay"):
        message.set_delay_time_level(options.number("delay"))
    return message, body[:SHOWN_CHARS]


def report(body: str, result: Any) -> None:
    status = "SEND_OK" if result.status == 0 else str(result.status)
    emit("sent", status=status, id=result.msg_id, queue_offset=result.offset, body=body)


def sign(client: Any, options: Options) -> None:
    """Sign requests as `--user`, if there is one."""
    if "user" in options:
        client.set_session_credentials(options["user"], options["secret"], "")


def send(options: Options) -> None:
    producer = Producer(options.get("group", "PG_driver"))
    producer.set_namesrv_addr(options["namesrv"])
    sign(producer, options)
    producer.set_timeout(options.number("timeout-ms", 5000))
    producer.start()
    time.sleep(SETTLED_S)
    try:
        if "until" in options:
            with refreshed(producer._handle, options["topic"], options.number("poll-ms")):
                send_until(producer, options)
            return
        messages = [make(options, i) for i in range(options.number("count", 1))]
        SENDERS[options.get("kind", "sync")](producer, messages)
    finally:
        producer.shutdown()


def send_until(producer: Producer, options: Options) -> None:
    i = 0
    while not os.path.exists(options["until"]):
        message, body = make(options, i)
        try:
            report(body, producer.send_sync(message))
        except Exception as error:
            emit("failed", body=body, error=str(error))
        i += 1
        time.sleep(options.number("pause-ms") / 1000)


def send_sync(producer: Producer, messages: list[tuple[Message, str]]) -> None:
    for message, body in messages:
        report(body, producer.send_sync(message))


def send_ordered(producer: Producer, messages: list[tuple[Message, str]]) -> None:
    for i, (message, body) in enumerate(messages):
        report(body, producer.send_orderly(message, i % SHARDS))


def send_oneway(producer: Producer, messages: list[tuple[Message, str]]) -> None:
    for message, body in messages:
        producer.send_oneway(message)
        emit("sent", status="ONEWAY", body=body)


def send_batch(producer: Producer, messages: list[tuple[Message, str]]) -> None:
    result = producer.send_batch([message for message, _ in messages])
    for _, body in messages:
        report(body, result)


def send_async(producer: Producer, messages: list[tuple[Message, str]]) -> None:
    answers = threading.Semaphore(0)
    failures: list[Exception] = []

    def done_with(body: str) -> Callable[[Any], None]:
        def done(result: Any) -> None:
            report(body, result)
            answers.release()

        return done

    def failed(error: Exception) -> None:
        failures.append(error)
        answers.release()

    for message, body in messages:
        producer.send_async(message, done_with(body), failed)
    for _ in messages:
        if not answers.acquire(timeout=20):
            raise TimeoutError("asynchronous sends unanswered")
    if failures:
        raise failures[0]


SENDERS = {
    "sync": send_sync,
    "ordered": send_ordered,
    "oneway": send_oneway,
    "batch": send_batch,
    "async": send_async,
}


def transact(options: Options) -> None:
    asked = threading.Semaphore(0)
    state = STATES[options.get("check", "unknown")]

    def check(body: str, key: str, times: str) -> int:
        emit("checked", body=body[:SHOWN_CHARS], id=key, times=times)
        asked.release()
        return state

    producer = TransactionProducer(
        options.get("group", "PG_transactions"),
        options["namesrv"],
        options.number("timeout-ms", 5000),
        check,
    )
    time.sleep(SETTLED_S)
    try:
        send_in_transactions(producer, options)
        with refreshed(producer.handle, options["topic"], options.number("poll-ms", 1000)):
            await_all(asked, options.number("wait-checks"), options.number("timeout-ms", 60_000))
            time.sleep(options.number("linger-ms", 300) / 1000)
    finally:
        producer.stop()


def send_in_transactions(producer: TransactionProducer, options: Options) -> None:
    topic, prefix = options["topic"], options.get("prefix", "t")
    if options.get("send") == "false":  # it greets only brokers whose topics it knows
        producer.greet(topic)
        return
    for i in range(options.number("count", 1)):
        body = f"{prefix}-{i}"
        sent = producer.send(topic, f"{prefix}-k-{i}", i, body, options.get("local", "commit"))
        emit(
            "sent",
            status=STATUSES[sent.status],
            id=sent.id.decode(),
            offset_id=sent.offset_id.decode(),
            queue=sent.queue,
            queue_offset=sent.queue_offset,
            body=body,
        )
        if not i:
            producer.greet(topic)


def await_all(told: threading.Semaphore, count: int, within_ms: int) -> int:
    """How many of ``count`` came in time."""
    end = time.monotonic() + within_ms / 1000
    for got in range(count):
        if not told.acquire(timeout=max(0.0, end - time.monotonic())):
            return got
    return count


def push(options: Options) -> None:
    seen = threading.Semaphore(0)
    members = []
    for member in range(options.number("members", 1)):
        members.append(start_member(options, member, seen))
        emit("started", member=member)
    count = options.number("count")
    with ExitStack() as stack:
        for consumer in members:
            stack.callback(consumer.shutdown)
        for consumer in members:
            stack.enter_context(
                refreshed(consumer._handle, options["topic"], options.number("poll-ms"))
            )
        got = await_all(seen, count or FOR_EVER, options.number("timeout-ms", 30_000))
        if got < count:
            raise TimeoutError(f"{count - got} messages did not come")
        time.sleep(options.number("linger-ms") / 1000)


def start_member(options: Options, member: int, seen: threading.Semaphore) -> PushConsumer:
    model = MessageModel.BROADCASTING if options.flag("broadcast") else MessageModel.CLUSTERING
    consumer = PushConsumer(options["group"], options.flag("order"), model)
    consumer.set_namesrv_addr(options["namesrv"])
    consumer.set_instance_name(f"member-{member}-{time.time_ns()}")
    sign(consumer, options)

    def take(message: Any) -> None:
        received(member, message)
        seen.release()
        if options.flag("fail"):
            raise RuntimeError("asked to fail")

    consumer.subscribe(options["topic"], take, options.get("filter", "*"))
    consumer.start()
    return consumer


def pull(options: Options) -> None:
    consumer = PullConsumer(options["group"])
    consumer.set_namesrv_addr(options["namesrv"])
    sign(consumer, options)
    consumer.start()
    emit("started", member=0)
    try:
        seen = sum(1 for _ in pulled(consumer, options))
    finally:
        consumer.shutdown()
    if seen < options.number("count"):
        raise TimeoutError(f"{options.number('count') - seen} messages did not come")


def pulled(consumer: PullConsumer, options: Options) -> Iterator[None]:
    PullConsumer.offset_table.clear()
    for message in consumer.pull(options["topic"], options.get("filter", "*")):
        received(0, message)
        yield


SCENARIOS = {"send": send, "transact": transact, "push": push, "pull": pull}


def run(words: list[str]) -> bool:
    error = ""
    try:
        SCENARIOS[words[0]](Options.parse(words[1:]))
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    emit("end", scenario=words[0], ok=not error, error=error)
    return not error


def main() -> int:
    if len(sys.argv) > 1:
        return 0 if run(sys.argv[1:]) else 1
    for line in sys.stdin:
        if line.split():
            run(line.split())
    return 0


if __name__ == "__main__":
    code = main()
    _out.flush()
    os._exit(code)  # the library's destructors wait for threads of consumers already shut down
