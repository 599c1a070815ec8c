"""Frames as clients send them, and ways to damage them; each drawn from a seed and its number."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

from .hostile import (
    ONEWAY,
    RESPONSE,
    Ext,
    batch_record,
    binary_header,
    frame,
    json_header,
    long_send_ext,
    pull_ext,
    send_ext,
    topic_ext,
)

TOPIC, GROUP = "Fuzzed", "FuzzedGroup"
OPAQUE = 7
_TIMES = {"beginTimestamp": 0, "endTimestamp": 2**62}
_FIRST_ID = "7F00000100002A9F" + "0" * 16
_QUEUE = {"topic": TOPIC, "queueId": 0}
_SQL = {"topic": TOPIC, "subString": "a > 1", "expressionType": "SQL92"}
_BEAT = {
    "clientID": "fuzz",
    "producerDataSet": [{"groupName": GROUP}],
    "consumerDataSet": [
        {
            "groupName": GROUP,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [
                {"topic": TOPIC, "subString": "A || B", "subVersion": 1, "codeSet": [65, 66]},
                _SQL,
            ],
        }
    ],
}
_LOCK = {
    "consumerGroup": GROUP,
    "clientId": "fuzz",
    "mqSet": [{"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}],
}
_REGISTER: Ext = {
    "brokerName": "fuzz", "brokerAddr": "192.0.2.1:1", "clusterName": "Fuzz",
    "haServerAddr": "192.0.2.1:2", "brokerId": 0, "compressed": "false", "bodyCrc32": 0,
    "enableActingMaster": "true", "heartbeatTimeoutMillis": 10_000,
}  # fmt: skip
_TOPICS = {
    "topicConfigSerializeWrapper": {
        "topicConfigTable": {name: {"topicName": name, "perm": 6} for name in ("Fuzz1", "Fuzz2")},
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1},
    },
    "filterServerList": [],
}
_ROUTE = {
    "queueDatas": [{"brokerName": "fuzz", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}],
    "brokerDatas": [],
}
_TEXT = "UNIQ_KEY\x01K1\x02TAGS\x01A\x02KEYS\x01k1 k2\x02WAIT\x01true"

Golden = tuple[int, Ext, bytes]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


BROKER: list[Golden] = [
    (10, long_send_ext(TOPIC, i=_TEXT), b"body"),
    (310, send_ext(TOPIC, i=_TEXT), b"body"),
    (310, send_ext(TOPIC, i=_TEXT + "\x02DELAY\x013"), b"body"),
    (310, send_ext("%RETRY%" + GROUP, i=_TEXT, j=3, l=16), b"body"),
    (320, send_ext(TOPIC, i="WAIT\x01true", m="true"), batch_record(b"one") + batch_record(b"two")),
    (324, long_send_ext(TOPIC, i="REPLY_TO_CLIENT\x01fuzz\x02MSG_TYPE\x01reply"), b"body"),
    (11, pull_ext(topic=TOPIC, consumerGroup=GROUP), b""),
    (11, pull_ext(topic=TOPIC, consumerGroup=GROUP, sysFlag=7, suspendTimeoutMillis=15_000), b""),
    (11, pull_ext(topic=TOPIC, consumerGroup=GROUP, subscription="A || B"), b""),
    (361, pull_ext(topic=TOPIC, expressionType="SQL92", subscription="a > 1 AND b = 'x'"), b""),
    (12, {"topic": TOPIC, "key": "k1", "maxNum": 3, **_TIMES}, b""),
    (14, {"consumerGroup": GROUP, **_QUEUE, "setZeroIfNotFound": "false"}, b""),
    (15, {"consumerGroup": GROUP, **_QUEUE, "commitOffset": 1}, b""),
    (17, topic_ext(TOPIC, attributes="+message.type=NORMAL"), b""),
    (25, {}, b"traceOn=true\n"),
    (26, {}, b""),
    (28, {}, b""),
    (29, {**_QUEUE, "timestamp": 1, "boundaryType": "UPPER"}, b""),
    (30, _QUEUE, b""),
    (31, _QUEUE, b""),
    (32, _QUEUE, b""),
    (33, {"offset": 0}, b""),
    (34, {}, _json(_BEAT)),
    (35, {"clientID": "fuzz", "consumerGroup": GROUP}, b""),
    (36, {"offset": 0, "group": GROUP, "delayLevel": 0, "maxReconsumeTimes": 16}, b""),
    (38, {"consumerGroup": GROUP}, b""),
    (41, {}, _json(_LOCK)),
    (42, {}, _json(_LOCK)),
    (46, {}, _json({"subscriptionData": _SQL})),
    (200, {}, _json({"groupName": GROUP, "retryMaxTimes": 16})),
    (202, {"topic": TOPIC}, b""),
    (207, {"groupName": GROUP, "cleanOffset": "true"}, b""),
    (208, {"consumerGroup": GROUP, "topic": TOPIC}, b""),
    (215, {"topic": "Fuzzed2"}, b""),
    (222, {"topic": TOPIC, "group": GROUP, "timestamp": 0, "isForce": "true"}, b""),
    (307, {"consumerGroup": GROUP, "clientId": "fuzz"}, b""),
    (309, {"consumerGroup": GROUP, "clientId": "fuzz", "msgId": _FIRST_ID}, b""),
    (314, {"srcGroup": GROUP, "destGroup": "Fuzzed2", "topic": TOPIC}, b""),
    (315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}, b""),
    (317, {"isOrder": "false"}, b""),
    (321, {**_QUEUE, "index": 0, "count": 9, "consumerGroup": GROUP}, b""),
    (353, {"group": GROUP, "topic": TOPIC, "readable": "true"}, b""),
]  # fmt: skip

NAMESRV: list[Golden] = [
    (100, {"namespace": "Fuzz", "key": "k", "value": "v"}, b""),
    (101, {"namespace": "Fuzz", "key": "k"}, b""),
    (102, {"namespace": "Fuzz", "key": "k"}, b""),
    (103, _REGISTER, _json(_TOPICS)),
    (104, _REGISTER, b""),
    (105, {"topic": "Fuzz1", "acceptStandardJsonOnly": "true"}, b""),
    (106, {}, b""),
    (205, {"brokerName": "fuzz"}, b""),
    (206, {}, b""),
    (216, {"topic": "Fuzz1", "clusterName": "Fuzz"}, b""),
    (217, {"topic": "Fuzz3"}, _json(_ROUTE)),
    (219, {"namespace": "Fuzz"}, b""),
    (224, {"cluster": "Fuzz"}, b""),
    (318, {}, b"enableTopicList=true\n"),
    (322, _REGISTER, b'{"counter":1,"stateVersion":0,"timestamp":1}'),
    (327, {"brokerName": "fuzz"}, b""),
    (901, {"clusterName": "Fuzz", "brokerName": "fuzz"}, b""),
    (904, {"clusterName": "Fuzz", "brokerName": "fuzz", "brokerAddr": "192.0.2.1:1"}, b""),
]

WEIRD = [
    "", "x", "-1", "0", "1.5", "1e3", "true", "null", "[]", "{}", "\x00", "😀", "é" * 50,
    "../../../etc/passwd", "%RETRY%", "a" * 300, "9" * 400, "A\x01B\x02" * 50, "\x01" * 3_000,
    *(str(2**bits + step) for bits in (15, 31, 63) for step in (-1, 0, 1)),
    *(str(step - 2**bits) for bits in (15, 31, 63) for step in (-1, 0, 1)),
]  # fmt: skip


def _flip(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.randrange(1, 9)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _flip_behind_the_lengths(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(8, len(data))] = chance.randrange(256)


def _truncate(chance: random.Random, data: bytearray) -> None:
    del data[chance.randrange(1, len(data)) :]


def _lie_about_length(chance: random.Random, data: bytearray) -> None:
    lies = (-1, 0, 3, 4, len(data) - 5, len(data) - 3, 1 << 24, (1 << 24) - 4, 2**31 - 1)
    struct.pack_into(">i", data, 0, chance.choice(lies))


def _lie_about_header(chance: random.Random, data: bytearray) -> None:
    lies = (0, 1, len(data) - 8, len(data) - 7, 1 << 16, (1 << 24) - 1, chance.getrandbits(24))
    struct.pack_into(">I", data, 4, data[4] << 24 | chance.choice(lies))


def _change_encoding(chance: random.Random, data: bytearray) -> None:
    data[4] = chance.choice((1 - data[4] % 2, 2, 22, 255))


def _move_bytes(chance: random.Random, data: bytearray) -> None:
    """Cut a slice out and put it in somewhere else, the lengths as they were."""
    at = chance.randrange(8, len(data))
    piece = data[at : at + chance.randrange(1, 40)]
    del data[at : at + len(piece)]
    to = chance.randrange(8, len(data) + 1)
    data[to:to] = piece


def _random_bytes(chance: random.Random, data: bytearray) -> None:
    data[:] = chance.randbytes(chance.randrange(1, 400))


def _random_frame(chance: random.Random, data: bytearray) -> None:
    header, body = chance.randbytes(chance.randrange(200)), chance.randbytes(chance.randrange(200))
    data[:] = frame(header, body, chance.randrange(2))


DAMAGES: list[Callable[[random.Random, bytearray], None]] = [
    _flip,
    _flip_behind_the_lengths,
    _truncate,
    _lie_about_length,
    _lie_about_header,
    _change_encoding,
    _move_bytes,
    _random_bytes,
    _random_frame,
]


def _changed_fields(chance: random.Random, golden: Golden) -> bytes:
    """A whole frame in which fields are odd, missing or many; or whose body is odd."""
    code, ext, body = golden
    fields = dict(ext)
    for key in chance.sample(sorted(fields), min(len(fields), chance.randrange(3))):
        fields[key] = chance.choice(WEIRD)
    if fields and chance.random() < 0.2:
        del fields[chance.choice(sorted(fields))]
    if chance.random() < 0.05:
        fields.update((str(number), "x") for number in range(chance.choice((200, 256, 300, 4_000))))
    if chance.random() < 0.3:
        body = _changed_body(chance, body)
    flag = chance.choice((0, 0, 0, 0, ONEWAY, RESPONSE))
    version = chance.choice((0, 401, 413, 479, 999))
    if chance.random() < 0.3 and -(2**15) <= code < 2**15:
        return frame(binary_header(code, fields, flag, version, OPAQUE), body, 1)
    return frame(json_header(code, fields, flag, version, OPAQUE), body)


def _changed_body(chance: random.Random, body: bytes) -> bytes:
    depth = chance.choice((31, 33, 5_000))
    return chance.choice(
        (
            b"",
            b"[" * depth,
            b'{"a":' * depth + b"1" + b"}" * depth,
            body[: chance.randrange(len(body) + 1)],
            body.replace(b'"', b"'"),
            body.replace(b"1", chance.choice(WEIRD).encode("utf-8", "replace")),
            chance.randbytes(chance.randrange(300)),
            bytes(70_000),
        )
    )


def draw(seed: int, number: int, goldens: list[Golden]) -> bytes:
    """The bytes of one damaged frame; the same for the same seed and number."""
    chance = random.Random(seed * 1_000_003 + number)
    golden = chance.choice(goldens)
    if chance.random() < 0.6:
        return _changed_fields(chance, golden)
    code, ext, body = golden
    binary = chance.random() < 0.4
    build = binary_header if binary else json_header
    header = build(code, ext, opaque=OPAQUE)
    data = bytearray(frame(header, body, int(binary)))
    chance.choice(DAMAGES)(chance, data)
    return bytes(data)
