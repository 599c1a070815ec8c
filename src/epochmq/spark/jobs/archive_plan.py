"""Plans one batch of an archive: ranges of queue offsets, and their distribution to tasks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.model.topic import MessageQueue

Bounds = Mapping[MessageQueue, tuple[int, int]]
"""Queue -> its first queue offset, and the one after its last readable message."""
Positions = dict[MessageQueue, int]
"""Queue -> the next queue offset to archive."""


@dataclass(frozen=True, order=True)
class Range:
    """Queue offsets `start` to `end` (exclusive) of one queue."""

    queue: MessageQueue
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Gap:
    """Messages that retention deleted before they were archived."""

    queue: MessageQueue
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.queue}: queue offsets {self.start} to {self.end - 1}"


def starting(bounds: Bounds, positions: Positions, latest: bool = False) -> Positions:
    """Return where to continue: known queues at their position, new ones at their first message."""
    found = dict(positions)
    for queue, (low, high) in bounds.items():
        found.setdefault(queue, high if latest else low)
    return found


def check_alive(bounds: Bounds, positions: Positions) -> None:
    """Raise `UsageError` when a queue ends before its archived part: the topic is another one."""
    for queue, position in sorted(positions.items()):
        if queue in bounds and bounds[queue][1] < position:
            raise UsageError(
                f"{queue} ends at queue offset {bounds[queue][1]}, and the table has it up to"
                f" {position}: the topic was deleted and created again (or its log was cut);"
                " archive the new one into another table"
            )


def check_same_topics(recreated: Sequence[MessageQueue], positions: Positions) -> None:
    """Raise `UsageError` when a queue's first message is newer than the table's last."""
    if recreated:
        queue = recreated[0]
        raise UsageError(
            f"{queue} was archived up to queue offset {positions[queue]}, and all its messages are"
            " younger than that: the topic was deleted and created again; archive the new one into"
            " another table"
        )


def missing(bounds: Bounds, positions: Positions) -> list[MessageQueue]:
    """Return the queues that are in the table and that no broker serves now."""
    return sorted(queue for queue in positions if queue not in bounds)


def gaps(bounds: Bounds, positions: Positions) -> list[Gap]:
    """Return the messages that brokers deleted before they were archived."""
    return [
        Gap(queue, position, bounds[queue][0])
        for queue, position in sorted(positions.items())
        if queue in bounds and position < bounds[queue][0]
    ]


def check_gaps(found: Sequence[Gap], allowed: bool) -> None:
    """Raise `EnvironmentFault` for lost messages unless the operator allowed the loss."""
    if found and not allowed:
        raise EnvironmentFault(
            "messages were deleted on the broker before they were archived: "
            + "; ".join(map(str, found))
            + ". --allow-loss goes on behind them, and the run report names them"
        )


def backlog(bounds: Bounds, positions: Positions) -> list[Range]:
    """Return all ranges that can be archived now."""
    found = []
    for queue, (low, high) in sorted(bounds.items()):
        start = max(positions.get(queue, low), low)
        if start < high:
            found.append(Range(queue, start, high))
    return found


def share(ranges: Sequence[Range], limit: int) -> list[Range]:
    """Cut `ranges` to at most `limit` rows in total, each queue in proportion."""
    total = sum(map(len, ranges))
    if total <= limit:
        return list(ranges)
    taken = [max(1, len(each) * limit // total) for each in ranges]
    kept, left = [], limit
    for each, count in zip(ranges, taken, strict=True):
        count = min(count, left)
        if count:
            kept.append(Range(each.queue, each.start, each.start + count))
            left -= count
    return kept


def deal(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Distribute `ranges` to at most `tasks` tasks of equal size, in the order of queues."""
    total = sum(map(len, ranges))
    if not total:
        return []
    each_task = -(-total // max(1, min(tasks, total)))
    found: list[list[Range]] = [[]]
    room = each_task
    for one in ranges:
        at = one.start
        while at < one.end:
            if not room:
                found.append([])
                room = each_task
            end = min(one.end, at + room)
            found[-1].append(Range(one.queue, at, end))
            room -= end - at
            at = end
    return found


def advanced(positions: Positions, ranges: Iterable[Range]) -> Positions:
    """Return the positions after `ranges`."""
    return {**positions, **{each.queue: each.end for each in ranges}}


def up_to(positions: Positions, ends: Positions, bounds: Bounds) -> list[Range]:
    """Return the ranges of the batch from `positions` to `ends`, which was planned before."""
    found = []
    for queue, end in sorted(ends.items()):
        low = bounds[queue][0] if queue in bounds else 0
        start = max(positions.get(queue, low), low)
        if start < end:
            found.append(Range(queue, start, end))
    return found
