"""Follows the logs of broker groups as a learner, and keeps the new records of some topics.

`epochmq lake --learner` reads from here: one connection to the master of each group brings the
records of all topics in the log's order, instead of requests for each queue. A feed changes where
bytes come from, never which messages are read: what it does not keep is fetched from the brokers.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from epochmq.base.errors import EpochError
from epochmq.base.ports import Buffer
from epochmq.model.sys_flag import INNER_BATCH, TX_MASK, TX_PREPARED, TX_ROLLBACK
from epochmq.model.topic import MessageQueue
from epochmq.runtime.tls import OutgoingTls
from epochmq.spark.jobs.archive_plan import Range
from epochmq.spark.jobs.archive_task import Fetch
from epochmq.spark.log_export import LogExport, open_export
from epochmq.spark.log_learner import EpochStart, find_brokers
from epochmq.spark.log_records import WholeRecords
from epochmq.spark.log_scan import LogDamage, RecordRun, fronts_of, topics_of

log = logging.getLogger(__name__)

BYTES_MAX = 256 << 20
"""Records that are kept in memory. With more new ones, the feed begins again at the log's end."""
FAILOVER_S = 2.0
"""The feed waits for a new master for this time; then the brokers are asked instead."""


class QueuePiece(NamedTuple):
    """Whole records of one queue, of the queue offsets `[start, end)`."""

    start: int
    end: int
    records: bytes


class Covered(NamedTuple):
    """The part `[start, end)` of a range that is kept, with its records."""

    start: int
    end: int
    pieces: list[bytes]


class KeptRecords:
    """The newest records of each queue, without gaps. Threads may use different queues at once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._queues: dict[MessageQueue, deque[QueuePiece]] = {}
        self._lock = threading.Lock()

    def add(self, queue: MessageQueue, piece: QueuePiece) -> None:
        """Keep a piece. One that does not continue the queue replaces all that is kept of it."""
        with self._lock:
            kept = self._queues.setdefault(queue, deque())
            if kept and kept[-1].end != piece.start:
                self._drop(kept)
            kept.append(piece)
            self.bytes += len(piece.records)

    def find_range(self, queue: MessageQueue, start: int, end: int) -> Covered:
        """Return what is kept of `[start, end)`; pieces at the edges may reach beyond the range.

        Records before `start` are forgotten: they were read before.
        """
        with self._lock:
            kept = self._queues.get(queue, deque())
            while kept and kept[0].end <= start:
                self.bytes -= len(kept.popleft().records)
            found = [each for each in kept if each.start < end]
        if not found:
            return Covered(start, start, [])
        first, last = max(start, found[0].start), min(end, found[-1].end)
        return Covered(first, last, [each.records for each in found])

    def forget(self, broker: str) -> None:
        """Forget the queues of one broker group."""
        with self._lock:
            for queue in [each for each in self._queues if each.broker_name == broker]:
                self._drop(self._queues.pop(queue))

    def keep_topics(self, topics: Collection[str]) -> None:
        """Forget the queues of all other topics."""
        with self._lock:
            for queue in [each for each in self._queues if each.topic not in topics]:
                self._drop(self._queues.pop(queue))

    def _drop(self, kept: "deque[QueuePiece]") -> None:
        self.bytes -= sum(len(each.records) for each in kept)
        kept.clear()


def pieces_of(
    data: bytes, base: int, run: RecordRun, broker: str, topics: Collection[str]
) -> Iterator[tuple[MessageQueue, QueuePiece]]:
    """Yield the records of `run` by queue, in pieces without gaps; of `topics` only.

    Args:
        data: log bytes.
        base: log offset of the first byte of `data`.
        run: sound records in them.
        broker: the broker group's name.
        topics: names of topics.

    Left out are batches that are one record, whose queue offsets only their bodies tell, and
    records that are in no queue (prepared and rolled back).
    """
    at = run.offsets - base
    ends = np.append(at[1:], run.end - base)
    fronts = fronts_of(data, at)
    flags = fronts["sysFlag"].astype(np.int64)
    kinds = flags & TX_MASK
    plain = ((flags & INNER_BATCH) == 0) & (kinds != TX_PREPARED) & (kinds != TX_ROLLBACK)
    wanted = {topic.encode(): topic for topic in topics}
    rows: dict[MessageQueue, list[int]] = {}
    queue_ids = fronts["queueId"].tolist()
    for row, name in enumerate(topics_of(data, at, fronts)):
        topic = wanted.get(name)
        if topic is not None and plain[row]:
            rows.setdefault(MessageQueue(topic, broker, queue_ids[row]), []).append(row)
    offsets = fronts["queueOffset"].astype(np.int64)
    for queue, own in rows.items():
        chosen = np.array(own)
        places = offsets[chosen]
        for part in np.split(np.arange(len(chosen)), np.flatnonzero(np.diff(places) != 1) + 1):
            low, high = int(part[0]), int(part[-1])
            spans = zip(at[chosen[part]].tolist(), ends[chosen[part]].tolist(), strict=True)
            records = b"".join([data[begin:end] for begin, end in spans])
            yield queue, QueuePiece(int(places[low]), int(places[high]) + 1, records)


@dataclass
class _FollowedLog:
    """How far the log of a broker group was read."""

    offset: int
    entries: list[EpochStart] = field(default_factory=list)


Export = Callable[[str, int, list[EpochStart]], LogExport]
"""Opens an export of a broker group's log, from an offset on, behind these epochs."""


class LogFeed:
    """Reads what is new in the logs of all broker groups.

    Args:
        find: returns the names of the broker groups.
        export: opens an export of one group.
        bytes_max: the most bytes that are kept.
    """

    def __init__(
        self, find: Callable[[], Iterable[str]], export: Export, bytes_max: int = BYTES_MAX
    ) -> None:
        self.kept = KeptRecords()
        self._find = find
        self._export = export
        self._bytes_max = bytes_max
        self._followed: dict[str, _FollowedLog] = {}
        self._refused: dict[str, str] = {}
        """Why a group cannot be followed; a reason is logged once."""

    def advance(self, topics: Collection[str]) -> None:
        """Keep what is confirmed and new in these topics.

        The first call for a group only notes where its log ends. A group whose log cannot be read
        is not followed until the next call; its messages are read from its brokers.
        """
        self.kept.keep_topics(topics)
        try:
            brokers = list(self._find())
        except EpochError as error:
            self._refuse("", str(error))
            return
        for broker in brokers:
            try:
                self._follow(broker, topics)
                self._refused.pop(broker, None)
            except EpochError as error:
                self._begin_again(broker)
                self._refuse(broker, str(error))

    def read(self, one: Range, fetch: Fetch) -> Iterator[Buffer]:
        """Yield the raw records of a range; `fetch` gets what is not kept."""
        found = self.kept.find_range(one.queue, one.start, one.end)
        if not found.pieces:
            yield from fetch(one)
            return
        if one.start < found.start:
            yield from fetch(Range(one.queue, one.start, found.start))
        yield from found.pieces
        if found.end < one.end:
            yield from fetch(Range(one.queue, found.end, one.end))

    def _follow(self, broker: str, topics: Collection[str]) -> None:
        followed = self._followed.get(broker)
        if followed is None:
            export = self._export(broker, 0, [])
            _, end = export.find_bounds()
            self._followed[broker] = _FollowedLog(end, export.entries)
            return
        export = self._export(broker, followed.offset, followed.entries)
        whole = WholeRecords(export, crc=True)
        with closing(export.ranges()) as ranges:
            for one in ranges:
                for data, base, found in whole.add_range(one):
                    self._keep(broker, data, base, found, topics)
                if self.kept.bytes > self._bytes_max:
                    log.info(
                        "more than %(bytes)d bytes are new: all logs are followed again from their"
                        " ends; the brokers are asked for what is before them",
                        {"bytes": self._bytes_max},
                    )
                    for each in list(self._followed):
                        self._begin_again(each)
                    return
        followed.offset, followed.entries = export.offset, export.entries

    def _keep(
        self,
        broker: str,
        data: bytes,
        base: int,
        found: Iterable[RecordRun | LogDamage],
        topics: Collection[str],
    ) -> None:
        for each in found:
            if isinstance(each, RecordRun):
                for queue, piece in pieces_of(data, base, each, broker, topics):
                    self.kept.add(queue, piece)
            else:  # the reader that asks the brokers for these messages reports it
                self.kept.forget(broker)

    def _begin_again(self, broker: str) -> None:
        self.kept.forget(broker)
        self._followed.pop(broker, None)

    def _refuse(self, broker: str, why: str) -> None:
        if self._refused.get(broker) != why:
            self._refused[broker] = why
            log.warning(
                "the log of %(broker)s is not followed, its brokers are asked for each queue:"
                " %(why)s",
                {"broker": broker or "the cluster", "why": why},
            )


def open_feed(name_server: str, tls: OutgoingTls | None = None) -> LogFeed:
    """Return a feed of all broker groups that the name server knows."""

    def export(broker: str, start: int, known: list[EpochStart]) -> LogExport:
        return open_export(name_server, broker, start, None, known, tls, failover_s=FAILOVER_S)

    return LogFeed(lambda: find_brokers(name_server, tls), export)
