"""The few administrative requests that tests need to set a stage."""

from __future__ import annotations

import itertools
import json
import time

from . import wire

_SEND_V2, _UPDATE_OFFSET, _QUERY_OFFSET = 310, 15, 14
_UPDATE_TOPIC, _UPDATE_GROUP, _RESET_OFFSET = 17, 200, 222
_serial = itertools.count()


def _done(answer: wire.Answer) -> wire.Answer:
    assert answer.code == 0, answer
    return answer


def create_topic(broker: str, topic: str, queues: int = 4) -> str:
    """Create a topic; returned once the name server knows it (the broker tells it at once)."""
    header = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    _done(wire.call(broker, _UPDATE_TOPIC, header))
    return topic


def set_group(broker: str, group: str, retry_max: int = 16) -> str:
    """Create or change a consumer group, with its retry topic, so that no client waits for it."""
    body = {
        "groupName": group,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True,
        "retryQueueNums": 1,
        "retryMaxTimes": retry_max,
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True,
    }
    _done(wire.call(broker, _UPDATE_GROUP, {}, json.dumps(body).encode()))
    create_topic(broker, f"%RETRY%{group}", 1)
    return group


def send(broker: str, topic: str, body: bytes, queue: int = 0, properties: str = "") -> int:
    """Store one message; its queue offset."""
    header = {
        "a": "PG_stage",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue,
        "f": 0,
        "g": int(time.time() * 1000),
        "h": 0,
        "i": properties or f"UNIQ_KEY\x01{next(_serial):032X}\x02",
        "j": 0,
        "k": "false",
    }
    return int(_done(wire.call(broker, _SEND_V2, header, body)).ext["queueOffset"])


def committed(broker: str, topic: str, group: str, queue: int) -> int | None:
    """A group's offset in a queue; None where it has none."""
    header = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue,
        "setZeroIfNotFound": "false",
    }
    answer = wire.call(broker, _QUERY_OFFSET, header)
    return int(answer.ext["offset"]) if answer.code == 0 else None


def commit(broker: str, topic: str, group: str, queue: int, offset: int) -> None:
    """Set a group's offset in a queue."""
    header = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
    _done(wire.call(broker, _UPDATE_OFFSET, header))


def reset_offset(broker: str, topic: str, group: str, timestamp_ms: int) -> dict[str, int]:
    """Set a living group back to a time; the broker tells its members. The new offsets."""
    header = {"topic": topic, "group": group, "timestamp": timestamp_ms, "isForce": "true"}
    answer = _done(wire.call(broker, _RESET_OFFSET, header))
    return {"bytes": len(answer.body)}
