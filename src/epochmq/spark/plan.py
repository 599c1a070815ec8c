"""Computes the ranges that one batch reads, its tasks (Spark partitions) and lost messages. Pure.

The queue offsets of a queue have no gaps, so the number of rows in a range is exact.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

from epochmq.base.errors import UsageError
from epochmq.model.queue_offsets import Offsets
from epochmq.model.topic import MessageQueue
from epochmq.spark.retry import Lost
from epochmq.spark.spark_offsets import StreamOffset

Bounds = Mapping[MessageQueue, tuple[int, int]]
TASK_ROWS = 1_000
"""Small ranges of several queues share a task up to this many rows. A task with a source and a sink
in Python costs 15 to 45 ms whatever it reads; reading this many rows takes less time.
"""


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """A range of queue offsets of one queue: `start` to `stop` (exclusive)."""

    queue: MessageQueue
    start: int
    stop: int

    @property
    def count(self) -> int:
        """The number of rows in the range."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Backlog:
    """All messages that can be read now: one range for each known queue, which may be empty.

    `init` has the begins that differ from the offset before, or that it does not have. `lost` has
    the messages that were to be read and are gone.
    """

    spans: list[QueueRange]
    init: Offsets
    lost: list[Lost]


def backlog(
    before: StreamOffset, bounds: Bounds, recreated: Collection[MessageQueue] = ()
) -> Backlog:
    """Return the ranges from `before` to the ends of the queues, computed for each queue by itself.

    The queues in `recreated` hold other messages than those that were read before, so their ranges
    begin at their first message.
    """
    spans, init, lost = [], {}, []
    for queue in sorted(bounds):
        low, high = bounds[queue]
        begin = before.at.get(queue)
        if begin is None:
            begin = init[queue] = low  # a queue that was added: all its messages are new
        elif queue in recreated:
            why = (
                f"the topic was deleted and created again after its queue was read up to {begin}:"
                " all its messages are younger"
            )
            lost.append(Lost(queue, low, begin, why))
            begin = init[queue] = low
        elif missing := missing_at(queue, begin, low, high):
            lost.append(missing)
            begin = init[queue] = low
        spans.append(QueueRange(queue, begin, high))
    return Backlog(spans, init, lost)


def missing_at(queue: MessageQueue, begin: int, low: int, high: int) -> Lost | None:
    """Return the lost messages when a read continues at `begin` and the queue has `low` to
    `high`.
    """
    if begin < low:
        return Lost(queue, begin, low, f"the queue begins at {low} now, older ones were deleted")
    if begin > high:
        why = (
            f"the queue ends at {high}, but was read up to {begin} before: the topic was"
            " created again, or its log was cut"
        )
        return Lost(queue, high, begin, why)
    return None


def after(before: StreamOffset, found: Backlog, taken: Iterable[QueueRange]) -> StreamOffset:
    """Return the offset after a batch that reads `taken`; `before` itself when nothing changes."""
    at = {**before.at, **found.init}
    at.update((span.queue, span.stop) for span in taken)
    if not before.fresh and not found.init and at == before.at:
        return before
    init = dict(before.at) if before.fresh else {}
    init.update(found.init)
    return StreamOffset(at, init, newest=before.newest)


def batch_spans(before: StreamOffset, end: StreamOffset) -> list[QueueRange]:
    """Return the ranges that the batch from `before` to `end` reads, without empty ones.

    Raises `UsageError` when `end` is not from the same query as `before`.
    """
    spans = []
    for queue in sorted(end.at):
        begin, stop = end.begin_of(before, queue), end.at[queue]
        if begin is None or begin > stop:
            raise UsageError(
                f"the checkpoint does not say where {queue} was read before offset {stop}: it is"
                " of another query. Use a checkpoint of its own for each query"
            )
        if begin < stop:
            spans.append(QueueRange(queue, begin, stop))
    return spans


# Limits of a batch ----------------------------------------------------------------------------


def admit(spans: Sequence[QueueRange], limit: int) -> list[QueueRange]:
    """Cut `spans` to `limit` rows in total, shared in proportion to their sizes.

    The result has exactly `limit` rows if there are so many. Each queue with rows gets at least one
    while the limit allows it, so that a large queue does not starve the others.
    """
    total = sum(span.count for span in spans)
    if total <= limit:
        return list(spans)
    shares = _least_shares(spans, limit)
    left = limit - sum(shares)
    # After one row for each queue, shares go by size; rows left by rounding go to the largest
    # rests.
    rests = [span.count - share for span, share in zip(spans, shares, strict=True)]
    total_rest = sum(rests)
    parts = [divmod(left * rest, total_rest) for rest in rests]
    shares = [share + whole for share, (whole, _) in zip(shares, parts, strict=True)]
    by_rest = sorted(range(len(spans)), key=lambda at: (-parts[at][1], at))
    for at in by_rest[: limit - sum(shares)]:
        shares[at] += 1
    return [_first(span, share) for span, share in zip(spans, shares, strict=True)]


def _least_shares(spans: Sequence[QueueRange], limit: int) -> list[int]:
    """Give one row to each queue that has any; to the longest queues only, if the limit is
    smaller.
    """
    shares = [0] * len(spans)
    by_size = sorted(range(len(spans)), key=lambda at: (-spans[at].count, at))
    for at in by_size[:limit]:
        shares[at] = min(1, spans[at].count)
    return shares


def admit_bytes(
    spans: Sequence[QueueRange], row_bytes: Mapping[MessageQueue, float], limit: int
) -> list[QueueRange]:
    """Cut `spans` to about `limit` bytes in proportion, by the mean size of a row in each queue.

    The result has at least one row: a message larger than the limit would otherwise stop the query
    forever.
    """
    sizes = [span.count * max(1.0, row_bytes.get(span.queue, 1.0)) for span in spans]
    total = sum(sizes)
    if total <= limit:
        return list(spans)
    share = limit / total
    taken = [_first(span, int(span.count * share)) for span in spans]
    if not any(span.count for span in taken):
        at = max(range(len(spans)), key=lambda n: spans[n].count)
        taken[at] = _first(spans[at], 1)
    return taken


def _first(span: QueueRange, count: int) -> QueueRange:
    return replace(span, stop=span.start + min(count, span.count))


# Tasks ----------------------------------------------------------------------------------------


def split(
    spans: Iterable[QueueRange], min_partitions: int = 0, max_records: int = 0
) -> list[QueueRange]:
    """Split ranges so that each has at most `max_records` rows, and there are `min_partitions` or
    more.

    0 means no limit. Each range is cut into parts whose sizes differ by at most one row. While
    there are too few parts, the range with the largest parts is cut into one part more.
    """
    whole = [span for span in spans if span.count]
    pieces = [max(1, -(-span.count // max_records)) if max_records else 1 for span in whole]
    heap = [(-span.count / n, at) for at, (span, n) in enumerate(zip(whole, pieces, strict=True))]
    heapq.heapify(heap)
    wanted = min(min_partitions, sum(span.count for span in whole))
    for _ in range(wanted - sum(pieces)):
        _, at = heap[0]
        pieces[at] += 1
        heapq.heapreplace(heap, (-whole[at].count / pieces[at], at))
    return [part for span, n in zip(whole, pieces, strict=True) for part in _cut(span, n)]


def gathered(spans: Iterable[QueueRange], rows: int) -> list[tuple[QueueRange, ...]]:
    """Group consecutive ranges into tasks of at most `rows` rows; a larger range is a task of
    its own.
    """
    tasks: list[list[QueueRange]] = []
    room = 0
    for span in spans:
        if not tasks or span.count > room:
            tasks.append([])
            room = rows
        tasks[-1].append(span)
        room -= span.count
    return [tuple(task) for task in tasks]


class TaskWishes(Protocol):
    """The options `minPartitions` and `maxRecordsPerPartition`."""

    def __getitem__(self, name: str, /) -> Any: ...


def tasks_of(spans: Iterable[QueueRange], options: TaskWishes) -> list[tuple[QueueRange, ...]]:
    """Group ranges into tasks; small ranges share a task unless `minPartitions` is given.

    The same ranges and options give the same tasks: sinks recognise repeated rows by their place in
    the task.
    """
    most = 0 if options["minPartitions"] else TASK_ROWS
    return gathered(spans, min(most, options["maxRecordsPerPartition"] or most))


def _cut(span: QueueRange, pieces: int) -> list[QueueRange]:
    edges = [span.start + span.count * n // pieces for n in range(pieces + 1)]
    return [QueueRange(span.queue, start, stop) for start, stop in pairwise(edges)]
