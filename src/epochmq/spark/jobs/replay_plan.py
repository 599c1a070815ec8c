"""The plan and the state of a replay: its batches and how many are done. Pure but for one small
file.

A replay has a fixed plan: the ranges of queue offsets that the filters selected when it was
created. Batch n has the n-th part of every queue, so that all queues advance together and each
keeps its order. The state file has the plan and the number of finished batches. An interrupted
batch is sent again with the same sink id, batch number and order, and EpochMQ brokers drop the
messages that they have.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from epochmq.base.errors import UsageError

BATCHES_MAX = 1_000_000
PIECE_S = 0.1
"""A rate is kept within intervals of so many seconds."""
T = TypeVar("T")


class ReplaySource(NamedTuple):
    """The rows of one queue of the table: queue offsets from `low` to `high`, both included."""

    topic: str
    broker_name: str
    queue_id: int
    low: int
    high: int
    rows: int


@dataclass(frozen=True, slots=True)
class ReplayFilters:
    """Filters of rows; `since` and `until` are store times in wall ms, 0 for no bound."""

    topic: str = ""
    since: int = 0
    until: int = 0
    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    offsets: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """broker:queueId -> the first queue offset, and the one after the last."""

    def __post_init__(self) -> None:
        if self.until and self.until <= self.since:
            raise UsageError("the time to end at is not behind the one to begin at")
        for queue, (low, high) in self.offsets.items():
            if not 0 <= low < high:
                raise UsageError(f"{queue}: offsets {low} to {high} are not a range")


def parse_offsets(texts: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Parse `broker-a:0=100..200` (end exclusive) for `ReplayFilters.offsets`."""
    found = {}
    for text in texts:
        queue, _, pair = text.rpartition("=")
        low, dots, high = pair.partition("..")
        name, _, number = queue.rpartition(":")
        if not (name and number.isdecimal() and dots and low.isdecimal() and high.isdecimal()):
            raise UsageError(f"'{text}' is not a range: write broker-a:0=100..200")
        found[queue] = (int(low), int(high))
    return found


@dataclass(slots=True)
class ReplayState:
    """A replay in progress; `what` are the settings that must be the same when it continues."""

    id: str
    what: dict[str, Any]
    sources: list[ReplaySource]
    batches: int
    tasks: int
    """The number of Spark partitions of each batch."""
    done: int = 0
    rows: int = 0

    @property
    def is_finished(self) -> bool:
        return self.done >= self.batches


def batch_count(rows: int, batch_rows: int) -> int:
    """Return the number of batches of about `batch_rows` rows."""
    if batch_rows < 1:
        raise UsageError("a batch has at least one row")
    count = -(-rows // batch_rows)
    if count > BATCHES_MAX:
        raise UsageError(f"{count} batches are too many; make them larger than {batch_rows} rows")
    return count


def batch_ranges(state: ReplayState, number: int) -> list[tuple[ReplaySource, int, int]]:
    """Return the queue offsets `[from, to)` of each queue in batch `number` (from 0)."""
    found = []
    for source in state.sources:
        width = source.high + 1 - source.low
        low = source.low + width * number // state.batches
        high = source.low + width * (number + 1) // state.batches
        if low < high:
            found.append((source, low, high))
    return found


def load_state(path: Path, what: Mapping[str, Any]) -> ReplayState | None:
    """Load the replay to continue; None without a state file.

    Raises `UsageError` for the state of a finished replay, or of one with other settings.
    """
    try:
        found = json.loads(path.read_text())
        sources = [ReplaySource(*each) for each in found.pop("sources")]
        state = ReplayState(sources=sources, **found)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{path} is not a state of a replay; name another file") from None
    if state.is_finished:
        raise UsageError(
            f"the replay of {path} is finished ({state.rows} messages); name another state file to"
            " replay them once more"
        )
    for key, value in what.items():
        if state.what.get(key) != value:
            raise UsageError(
                f"the replay of {path} was begun with another {key} ({state.what.get(key)}, not"
                f" {value}); go on as it was begun, or name another state file"
            )
    return state


def save_state(path: Path, state: ReplayState) -> None:
    """Write the state file atomically and durably."""
    temp = path.with_name(f"{path.name}.tmp")
    with temp.open("w") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, path)


def paced(
    batches: Iterator[T],
    rows: Callable[[T], int],
    per_second: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[T]:
    """Yield `batches` at a rate of at most `per_second` rows per second."""
    began, sent = clock(), 0
    for batch in batches:
        late = began + sent / per_second - clock()
        if late > 0:
            sleep(late)
        sent += rows(batch)
        yield batch
