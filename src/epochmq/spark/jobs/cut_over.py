"""Where an archive ends and the live topic begins: one queue offset for each queue. No Spark here.

The archive's last commit holds, with its files, the next queue offset of each queue. Rows below it
come from the table, the others from the brokers. The end is fixed as well, so that a frame that is
computed twice is the same twice.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from epochmq.base.errors import UsageError
from epochmq.model.queue import MessageQueue
from epochmq.spark.jobs.archive_plan import Bounds, Gap, Positions, check_alive, check_gaps, gaps
from epochmq.spark.jobs.tables.archive_table import Offsets, TransactionMark
from epochmq.spark.jobs.tables.opening import AnyTable
from epochmq.spark.spark_offsets import by_topic, from_topics


@dataclass(frozen=True)
class CutOver:
    """Per queue: the archive has all below `at`, the brokers what is from there up to `end`."""

    at: Positions
    end: Positions
    lost: list[Gap] = field(default_factory=list)
    """Messages that no archive took before they were deleted."""

    @property
    def live_rows(self) -> int:
        return sum(end - self.at[queue] for queue, end in self.end.items())

    def starting(self) -> str:
        """As option startingOffsets."""
        return _json({queue: self.at[queue] for queue in self.end})

    def ending(self) -> str:
        """As option endingOffsets."""
        return _json(self.end)


def _json(offsets: Mapping[MessageQueue, int]) -> str:
    return json.dumps(by_topic(offsets), sort_keys=True, separators=(",", ":"))


def mark_of(table: AnyTable) -> TransactionMark:
    """The last commit's mark; `UsageError` for a table without any."""
    mark = table.mark
    if mark is None:
        raise UsageError(f"no archive has written to {table.root} yet: there is no seam to find")
    return mark


def chosen_topics(offsets: Offsets, topics: Sequence[str], where: str) -> list[str]:
    """`topics`, or all that the table holds; `UsageError` for one that it does not."""
    unknown = sorted(set(topics) - set(offsets))
    if unknown:
        raise UsageError(
            f"the table {where} has no topic {unknown[0]}; it has {', '.join(sorted(offsets))}"
        )
    return sorted(topics or offsets)


def find_cut_over(offsets: Offsets, bounds: Bounds, allow_loss: bool = False) -> CutOver:
    """The seam of what a table holds and brokers have.

    Queues that the table does not know begin at their first message. `UsageError` for a topic that
    was made anew, `EnvironmentFault` for messages that are in neither place.
    """
    positions = from_topics(offsets)
    check_alive(bounds, positions)
    lost = gaps(bounds, positions)
    check_gaps(lost, allow_loss)
    at, end = dict(positions), {}
    for queue, (low, high) in bounds.items():
        at[queue] = max(positions.get(queue, low), low)
        end[queue] = max(high, at[queue])
    return CutOver(at, end, lost)
