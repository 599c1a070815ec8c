"""RocketMQ's gRPC client for Python, one scenario for each start: SCENARIO ENDPOINTS TOPIC GROUP.

It runs in an environment of its own. `send` sends COUNT plain messages, one that is delayed, and
two in transactions, of which one is committed. `push` and `simple` receive what there is to be
seen; `simple` hides its first message for some seconds before it acknowledges it. Each message is
one JSON line.
"""

import json
import sys
import threading
import time
from typing import Any

import rocketmq

COUNT = 10
SEEN = COUNT + 2
HIDDEN_S = 10
_printing = threading.Lock()
WITHIN_S = 30.0


def configuration(endpoints: str) -> Any:
    return rocketmq.ClientConfiguration(endpoints, rocketmq.Credentials(), request_timeout=10)


def emit(kind: str, message: Any) -> None:
    shown = {"event": kind, "id": message.message_id, "body": message.body.decode()}
    with _printing:
        print(json.dumps({**shown, "tag": message.tag}), flush=True)


def new_message(topic: str, body: str) -> Any:
    message = rocketmq.Message()
    message.topic = topic
    message.body = body.encode()
    message.tag = "A"
    message.keys = f"k-{body}"
    message.add_property("n", body)
    return message


def send(endpoints: str, topic: str, _group: str) -> None:
    class Checker(rocketmq.TransactionChecker):  # type: ignore[misc]
        def check(self, message: Any) -> Any:
            return rocketmq.TransactionResolution.ROLLBACK

    producer = rocketmq.Producer(configuration(endpoints), (topic,), checker=Checker())
    producer.startup()
    for number in range(COUNT):
        message = new_message(topic, f"plain-{number}")
        producer.send(message)
        emit("sent", message)
    delayed = new_message(topic, "delayed")
    delayed.delivery_timestamp = int(time.time()) + 2
    producer.send(delayed)
    emit("sent", delayed)
    for body in ("committed", "rolled back"):
        transaction = producer.begin_transaction()
        message = new_message(topic, body)
        producer.send(message, transaction)
        if body == "committed":
            transaction.commit()
            emit("sent", message)
        else:
            transaction.rollback()
    producer.shutdown()


def push(endpoints: str, topic: str, group: str) -> None:
    enough = threading.Event()
    seen: list[str] = []

    class Listener(rocketmq.MessageListener):  # type: ignore[misc]
        def consume(self, message: Any) -> Any:
            emit("received", message)
            seen.append(message.message_id)
            if len(seen) == SEEN:
                enough.set()
            return rocketmq.ConsumeResult.SUCCESS

    everything = {topic: rocketmq.FilterExpression()}
    consumer = rocketmq.PushConsumer(configuration(endpoints), group, Listener(), everything)
    consumer.startup()
    enough.wait(WITHIN_S)
    consumer.shutdown()


def simple(endpoints: str, topic: str, group: str) -> None:
    consumer = rocketmq.SimpleConsumer(
        configuration(endpoints), group, {topic: rocketmq.FilterExpression("A")}
    )
    consumer.startup()
    time.sleep(1)  # the proxy fails calls that overtake the client's settings
    received, hidden, deadline = 0, "", time.monotonic() + WITHIN_S
    while received < SEEN and time.monotonic() < deadline:
        for message in consumer.receive(16, 15) or []:
            if not hidden:
                hidden = message.message_id
                consumer.change_invisible_duration(message, HIDDEN_S)
                continue
            emit("received", message)
            consumer.ack(message)
            received += 1
    consumer.shutdown()


if __name__ == "__main__":
    {"send": send, "push": push, "simple": simple}[sys.argv[1]](*sys.argv[2:])
