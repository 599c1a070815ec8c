"""What third-party producers send, and whether rows of Spark's source hold all of it.

Everything is compared twice: with what the producer's own client said of its sends, and with what
the suite's own decoder (`peers/records.py`) sees in the broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .clients import CPP, GO, JAVA_4, JAVA_5, NODE, Client
from .drivers.driver import Driver, Event
from .peers import admin
from .peers.records import Record

COUNT = 9
LARGE = 20_000
"""Bytes of a body that every client compresses (they begin at 4 KiB)."""
COMPRESSED, CODEC = 0x1, 0x700
LZ4, ZSTD, ZLIB = 0x100, 0x200, 0x300
LONG = "x" * 150
"""Makes a topic's name too long for a V1 record. Only retry and dead-letter topics may have such
names, and of the clients only ali-ons sends to them."""


@dataclass(frozen=True)
class Sends:
    """One scenario of one client."""

    name: str
    client: Client
    kind: str = "sync"
    codecs: tuple[int, ...] = ()
    """One of them is in each record's flags; none for plain bodies."""
    words: Mapping[str, object] = field(default_factory=dict)
    prefix: str = "m"
    topic_tail: str = ""

    @property
    def size(self) -> int:
        """Bytes of each body."""
        return LARGE if self.codecs else 0

    def bodies(self) -> list[bytes]:
        """What every driver makes of the scenario."""
        return [f"{self.prefix}-{i}".encode().ljust(self.size, b".") for i in range(COUNT)]

    def run(self, driver: Driver, namesrv: str, topic: str) -> Sequence[Event]:
        """Send; what the client said of each."""
        return driver.run(
            "send",
            namesrv,
            topic,
            kind=self.kind,
            count=COUNT,
            prefix=self.prefix,
            tags="A,B",
            size=self.size,
            **self.words,
        ).sent

    def topic(self, prefix: str) -> str:
        """A name for its topic."""
        head = "%DLQ%" if self.topic_tail else ""
        return f"{head}{prefix}_{self.client.name}_{self.name.replace(' ', '_')}{self.topic_tail}"


def _plain(client: Client, *kinds: str) -> list[Sends]:
    return [Sends(kind, client, kind) for kind in kinds]


def _large(client: Client, *codecs: int) -> Sends:
    return Sends("large", client, codecs=codecs)


def _codec(name: str, flag: int) -> Sends:
    return Sends(name, JAVA_5, codecs=(flag,), words={"compress": name.upper()})


SENDS = (
    *_plain(JAVA_5, "sync", "ordered", "batch"),
    _codec("zlib", ZLIB),
    _codec("lz4", LZ4),
    _codec("zstd", ZSTD),
    *_plain(JAVA_4, "sync", "batch"),
    _large(JAVA_4, ZLIB, 0),
    *_plain(CPP, "sync", "ordered"),
    _large(CPP, ZLIB, 0),
    *_plain(NODE, "sync"),
    _large(NODE, ZLIB, 0),
    *_plain(GO, "sync", "batch"),
    _large(GO, ZLIB, 0),
    Sends("long name", NODE, topic_tail=LONG),
)


def sends_of(client: Client) -> list[Sends]:
    """The scenarios of one client."""
    return [each for each in SENDS if each.client is client]


def make_topic(broker: str, topic: str) -> str:
    """A topic of four queues."""
    return admin.create_topic(broker, topic)


def check_rows(
    rows: Sequence[Mapping[str, Any]],
    sends: Sends,
    topic: str,
    sent: Sequence[Event],
    stored: Sequence[Record],
) -> None:
    """`rows` (all columns, properties as a dict) are these messages, whole."""
    assert sorted(row["body"] for row in rows) == sorted(sends.bodies())
    by_place = {(record.queue, record.queue_offset): record for record in stored}
    assert {(row["queueId"], row["queueOffset"]) for row in rows} == by_place.keys()
    for row in rows:
        _check_row(row, sends, topic, by_place[row["queueId"], row["queueOffset"]])
    _check_answers(rows, sends, sent)


def _check_row(row: Mapping[str, Any], sends: Sends, topic: str, record: Record) -> None:
    i = int(bytes(row["body"]).rstrip(b".").rpartition(b"-")[2])
    assert row["topic"] == record.topic == topic
    assert (row["tags"], row["keys"]) == ("AB"[i % 2], f"{sends.prefix}-k-{i}")
    assert row["properties"] == record.properties
    told = {"n": str(i), "color": ("red", "blue")[i % 2], "note": "snow 雪"}
    assert told.items() <= row["properties"].items()
    assert (row["commitLogOffset"], row["sysFlag"]) == (record.offset, record.sys_flag)
    assert row["reconsumeTimes"] == record.reconsume == 0
    place = f"{record.offset:016X}"  # of a message without a key of its own: Go's in batches
    assert row["msgId"] == record.properties.get("UNIQ_KEY", row["msgId"][:-16] + place)
    if sends.codecs:
        assert row["sysFlag"] & COMPRESSED
        assert row["sysFlag"] & CODEC in sends.codecs
        assert len(record.stored_body) < len(row["body"])
    else:
        assert not row["sysFlag"] & COMPRESSED
        assert record.stored_body == row["body"]


def _check_answers(rows: Sequence[Mapping[str, Any]], sends: Sends, sent: Sequence[Event]) -> None:
    """Each send is found where its client was told that it is; a batch's answer is one for all."""
    assert len(sent) == COUNT
    if sends.kind == "batch":
        return
    by_body = {bytes(row["body"]).rstrip(b".").decode(): row for row in rows}
    for event in sent:
        row = by_body[event["body"].rstrip(".")]
        assert event["status"] == "SEND_OK"
        assert event["queue_offset"] == row["queueOffset"]
        assert event.get("queue", row["queueId"]) == row["queueId"]
        assert event.get("id", row["msgId"]) == row["msgId"]
        if "offset_id" in event:
            assert int(event["offset_id"][-16:], 16) == row["commitLogOffset"]
