"""The load of one Python client; a program of its own, because each client has its own environment.

    python bench/python_client_load.py CLIENT ACTION ADDRESS TOPIC SECONDS GROUP

CLIENT is epochmq, cpp (the package rocketmq, a wheel of the C++ client), grpc (the package
rocketmq-python-client, which speaks to RocketMQ's proxy) or aiokafka. ACTION is singly, in-flight
(100 at a time), in-flight-unbatched (the same, each message in a request of its own), batched
(1,000 at a time) or consumed (what is there, as GROUP). Prints one JSON object: messages a second,
and microseconds of CPU of this process a message.
"""

import asyncio
import json
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

BODY = b"x" * 1024
IN_FLIGHT = 100
BATCHING = 1000
BATCH = 100
WARM_S = 2.0
IDLE_S = 2.0
CONSUME_S = 20.0


class Meter:
    """Counts messages after the warm-up: for some seconds, or until no more arrive."""

    def __init__(self, seconds: float, warm_s: float) -> None:
        self._seconds = seconds
        self._warm_until = time.monotonic() + warm_s
        self._from = self._until = self._cpu = self._used = 0.0
        self._count = 0
        self.is_over = False

    def add(self, count: int = 1) -> None:
        """Note that `count` messages are done."""
        now = time.monotonic()
        if self._from:
            self._count += count
            self._until, self._used = now, cpu_s()
            self.is_over = self.is_over or now - self._from >= self._seconds
        elif now >= self._warm_until:
            self._from, self._cpu = now, cpu_s()

    def is_idle(self) -> bool:
        """Whether messages were seen, and none for `IDLE_S`, or for `CONSUME_S` in all."""
        now = time.monotonic()
        return self._until > 0 and (now - self._until > IDLE_S or now - self._from > CONSUME_S)

    def report(self) -> None:
        """Print the figures, from the first message after the warm-up to the last one."""
        elapsed, used = self._until - self._from, self._used - self._cpu
        rate, cpu_us = self._count / elapsed, used / max(1, self._count) * 1e6
        print(json.dumps({"rate": rate, "cpu_us": cpu_us}), flush=True)


def cpu_s() -> float:
    """Return the CPU seconds of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def send_all(action: str, meter: Meter, send: Callable[[], Awaitable[object]]) -> None:
    """Send with as many senders as the action has."""
    senders = {"singly": 1, "batched": BATCHING}.get(action, IN_FLIGHT)

    async def sender() -> None:
        while not meter.is_over:
            await send()
            meter.add()

    await asyncio.gather(*(sender() for _ in range(senders)))
    meter.report()


# EpochMQ -------------------------------------------------------------------------------------


async def epochmq(action: str, address: str, topic: str, group: str, meter: Meter) -> None:
    """Our asyncio client."""
    from epochmq import Message, Producer, PushConsumer

    if action == "consumed":

        def handle(messages: list[Any]) -> None:
            meter.add(len(messages))

        async with PushConsumer(address, group, start="first", batch_size=32) as consumer:
            consumer.on_message(handle, in_thread=False)
            await consumer.subscribe(topic)
            await consumer.start()
            while not meter.is_idle():  # noqa: ASYNC110 (only the clock tells)
                await asyncio.sleep(0.1)
            meter.report()
        return
    linger_ms = None if action == "in-flight-unbatched" else 0
    async with Producer(address, "bench", linger_ms=linger_ms) as producer:
        message = Message(topic, BODY)
        await send_all(action, meter, lambda: producer.send(message))


# aiokafka ------------------------------------------------------------------------------------


async def aiokafka(action: str, address: str, topic: str, group: str, meter: Meter) -> None:
    """The asyncio client of Kafka, with its defaults (it batches whatever waits)."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    if action == "consumed":
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
        )
        async with consumer:
            while not meter.is_idle():
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    meter.add(len(records))
            meter.report()
        return
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await send_all(action, meter, lambda: producer.send_and_wait(topic, BODY))


# The C++ client ------------------------------------------------------------------------------


@contextmanager
def cpp_producer(address: str) -> Iterator[Any]:
    from rocketmq.client import Producer

    producer = Producer("bench")
    producer.set_namesrv_addr(address)
    producer.start()
    time.sleep(1)  # its first heartbeat leaves from a thread of its own
    yield producer
    producer.shutdown()


def cpp(action: str, address: str, topic: str, group: str, meter: Meter) -> None:
    """The wheel of the C++ client."""
    from rocketmq.client import Message, PushConsumer

    def new_message() -> Any:
        message = Message(topic)
        message.set_body(BODY)
        return message

    if action == "consumed":

        def handle(message: Any) -> None:
            meter.add()

        consumer = PushConsumer(group)
        consumer.set_namesrv_addr(address)
        consumer.subscribe(topic, handle)
        consumer.start()
        while not meter.is_idle():
            time.sleep(0.1)
        meter.report()
        consumer.shutdown()
        return
    with cpp_producer(address) as producer:
        if action == "singly":
            while not meter.is_over:
                producer.send_sync(new_message())
                meter.add()
        elif action == "batched":
            while not meter.is_over:
                producer.send_batch([new_message() for _ in range(BATCH)])
                meter.add(BATCH)
        else:
            room = threading.Semaphore(IN_FLIGHT)

            def done(_: object) -> None:
                meter.add()
                room.release()

            while not meter.is_over:
                room.acquire()
                producer.send_async(new_message(), done, done)
        meter.report()


# The gRPC client -----------------------------------------------------------------------------


def grpc(action: str, address: str, topic: str, group: str, meter: Meter) -> None:
    """RocketMQ's Python client of version 5, by its proxy."""
    import rocketmq

    configuration = rocketmq.ClientConfiguration(
        address, rocketmq.Credentials(), request_timeout=10
    )
    if action == "consumed":

        class Listener(rocketmq.MessageListener):
            def consume(self, message: Any) -> Any:
                meter.add()
                return rocketmq.ConsumeResult.SUCCESS

        everything = {topic: rocketmq.FilterExpression()}
        consumer = rocketmq.PushConsumer(configuration, group, Listener(), everything)
        consumer.startup()
        while not meter.is_idle():
            time.sleep(0.1)
        meter.report()
        consumer.shutdown()
        return
    producer = rocketmq.Producer(configuration, (topic,))
    producer.startup()

    def new_message() -> Any:
        message = rocketmq.Message()
        message.topic = topic
        message.body = BODY
        return message

    if action == "singly":
        while not meter.is_over:
            producer.send(new_message())
            meter.add()
    else:
        room = threading.Semaphore(IN_FLIGHT)

        def done(future: Any) -> None:
            future.result()
            meter.add()
            room.release()

        while not meter.is_over:
            room.acquire()
            producer.send_async(new_message()).add_done_callback(done)
    meter.report()
    producer.shutdown()


def main(client: str, action: str, address: str, topic: str, seconds: str, group: str) -> None:
    """Run the load of one client."""
    meter = Meter(float(seconds), 0 if action == "consumed" else WARM_S)
    if client in ("cpp", "grpc"):
        {"cpp": cpp, "grpc": grpc}[client](action, address, topic, group, meter)
        return
    import uvloop

    work = {"epochmq": epochmq, "aiokafka": aiokafka}[client]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(action, address, topic, group, meter))


if __name__ == "__main__":
    main(*sys.argv[1:])
