"""Resolves starting and ending positions of options to queue offsets, by calls to the cluster."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from epochmq.base.errors import NotFound, UsageError
from epochmq.model.names import DLQ, RETRY, is_system_topic
from epochmq.model.queue_offsets import Offsets, queue_text
from epochmq.model.topic import MessageQueue
from epochmq.spark.options import OffsetsOption, Selection, Table
from epochmq.spark.plan import missing_at
from epochmq.spark.retry import DataLost
from epochmq.spark.spark_cluster import Cluster, OnLost
from epochmq.spark.spark_offsets import EARLIEST, LATEST, topics_of

Bounds = dict[MessageQueue, tuple[int, int]]


def selected(
    cluster: Cluster,
    selection: Selection,
    known: Iterable[str] = (),
    *,
    master: bool = False,
    missing_ok: bool = False,
) -> Bounds:
    """Return the bounds of all selected queues, and those of the topics in `known`.

    `known` are topics that the query read before. With `master` only masters are asked. Raises
    `NotFound` for a topic that does not exist (any more), or a pattern that matches no topic; with
    `missing_ok` a missing topic is left out. Raises `UsageError` for an assigned queue that its
    topic does not have.
    """
    topics = selection.topics or tuple(selection.queues)
    if selection.pattern is not None:
        topics = tuple(sorted({*matching(cluster.topics(), selection.pattern), *known}))
        if not topics:
            raise NotFound(f"no topic fits subscribePattern {selection.pattern!r}")
    if not missing_ok:
        return _assigned(cluster.bounds_of(topics, master=master), selection.queues)
    found: Bounds = {}
    for topic in topics:
        with suppress(NotFound):
            found.update(cluster.bounds(topic, master=master))
    there = set(topics_of(found))
    return _assigned(found, {t: q for t, q in selection.queues.items() if t in there})


def matching(topics: Iterable[str], pattern: str) -> list[str]:
    """Return the topics whose whole name matches `pattern`, sorted.

    System topics never match. Retry topics and dead-letter topics, whose names begin with `%`, only
    match a pattern that begins with `%`.
    """
    fits = re.compile(pattern).fullmatch
    hidden = () if pattern.startswith("%") else (RETRY, DLQ)
    return sorted(
        topic
        for topic in topics
        if fits(topic) and not is_system_topic(topic) and not topic.startswith(hidden)
    )


def _assigned(bounds: Bounds, queues: Mapping[str, tuple[str, ...]]) -> Bounds:
    if not queues:
        return bounds
    wanted = {
        queue
        for topic, texts in queues.items()
        for text in texts
        for queue in queues_named(bounds, topic, text)
    }
    return {queue: pair for queue, pair in bounds.items() if queue in wanted}


def queues_named(bounds: Bounds, topic: str, text: str) -> list[MessageQueue]:
    """Return the queues of `topic` that match `brokerName:queueId`, or `queueId` at every broker.

    Raises `UsageError` when there is none.
    """
    found = [
        queue
        for queue in bounds
        if queue.topic == topic and text in (queue_text(queue), str(queue.queue_id))
    ]
    if not found:
        known = [queue_text(queue) for queue in bounds if queue.topic == topic]
        said = f"its queues are {', '.join(known[:8])}" if known else "the topic is not selected"
        raise UsageError(f"topic {topic} has no queue {text}: {said}")
    return found


def resolve(cluster: Cluster, bounds: Bounds, position: OffsetsOption) -> Offsets:
    """Return the queue offset of `position` in each queue.

    An offset that the options give as a number may lie outside the bounds. Raises `UsageError` for
    a strict time with no message stored then or later.
    """
    word = {queue: _edge(pair, position.word) for queue, pair in bounds.items()}
    if position.kind == "Offsets":
        return {**word, **_from_table(bounds, position.table)}
    if position.kind == "Timestamp":
        return _at_times(cluster, bounds, dict.fromkeys(bounds, position.wall_ms), position.strict)
    if position.kind == "OffsetsByTimestamp":
        times = _per_queue(bounds, position.table)
        return {**word, **_at_times(cluster, bounds, times, position.strict)}
    if position.kind == "Group":
        return {**word, **cluster.committed_all(position.group, bounds)}
    by_epoch: Offsets = {}
    for topic in topics_of(bounds):
        by_epoch.update(cluster.epoch_offsets(topic, position.epoch))
    return {queue: by_epoch.get(queue, offset) for queue, offset in word.items()}


def begin_within(
    bounds: Mapping[MessageQueue, tuple[int, int]],
    begin: Offsets,
    position: OffsetsOption | None,
    forgiving: OnLost | None,
) -> Offsets:
    """Return `begin` with each offset that lies outside the bounds replaced by the queue's first
    one.

    `forgiving` is called with each loss; when it is None, `DataLost` is raised. Raises `UsageError`
    for an offset of option startingOffsets that is larger than the queue's end.
    """
    found = {}
    for queue, (low, high) in bounds.items():
        start = begin[queue]
        if start > high and position is not None and position.kind == "Offsets":
            raise UsageError(
                f"startingOffsets begins {queue} at queue offset {start}, but it ends at {high}"
            )
        lost = missing_at(queue, start, low, high)
        if lost is not None:
            if forgiving is None:
                raise DataLost(lost)
            forgiving(lost)
        found[queue] = low if lost is not None else start
    return found


def _edge(pair: tuple[int, int], word: str) -> int:
    return pair[0] if word == "earliest" else pair[1]


def _per_queue(bounds: Bounds, table: Table) -> Offsets:
    return {
        queue: number
        for topic, queues in table.items()
        for text, number in queues.items()
        for queue in queues_named(bounds, topic, text)
    }


def _from_table(bounds: Bounds, table: Table) -> Offsets:
    words = {EARLIEST: "earliest", LATEST: "latest"}
    return {
        queue: _edge(bounds[queue], words[number]) if number in words else number
        for queue, number in _per_queue(bounds, table).items()
    }


def _at_times(cluster: Cluster, bounds: Bounds, times: Offsets, strict: bool) -> Offsets:
    found = cluster.offsets_at(times)
    result = {}
    for queue, offset in found.items():
        low, high = bounds[queue]
        if strict and offset >= high:
            raise UsageError(
                f"{queue} has no message stored at {times[queue]} ms or later;"
                " startingOffsetsByTimestampStrategy=latest begins at its end instead"
            )
        result[queue] = min(max(offset, low), high)
    return result
