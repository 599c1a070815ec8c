"""Plans the tasks of `format("rocketmq-log")`: which bytes of which store directory each one reads.

It computes splits and only reads the store directories. A split is a range of one file that begins
and ends at record borders. Splits are in the log's order, so a single task's rows are, too.
"""

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from epochmq.base.errors import NotFound, StoreDamaged
from epochmq.spark.log_files import EpochSpan, LogFile, StoreDirectory
from epochmq.spark.log_options import ALL, CONFIRMED, CUT, END, FAIL, LOG, REPORT, LogOptions
from epochmq.spark.log_scan import LogDamage

REPLICAS_MAX = 1000
"""The most directories in one read."""


@dataclass(frozen=True)
class LogSplit:
    """The range that one task reads."""

    replica: str
    file: LogFile
    start: int
    """A record border, as is `stop`."""
    stop: int
    low: int
    """Only records that begin in `[low, high)` become rows."""
    high: int
    epochs: tuple[EpochSpan, ...]
    confirmed: int | None
    damaged: tuple[LogDamage, ...] = ()
    """Damage that is known without reading: it gives rows in place of bytes."""


def find_replicas(options: LogOptions) -> list[StoreDirectory]:
    """Return the directories in option `path`; raises `NotFound` when one is not a store
    directory.
    """
    found: list[str] = []
    for place in options.places:
        matches = sorted(glob.glob(place)) if glob.has_magic(place) else [place]
        matches = [path for path in matches if os.path.isdir(path) or not glob.has_magic(place)]
        if not matches:
            raise NotFound(f"no directory matches {place}; name a broker's storePathRootDir")
        found += [path for path in matches if path not in found]
    if len(found) > REPLICAS_MAX:
        raise NotFound(f"{len(found)} directories match; the most is {REPLICAS_MAX}")
    return [StoreDirectory(path) for path in found]


def plan(replicas: Iterable[StoreDirectory], options: LogOptions) -> list[LogSplit]:
    """Return the splits of all replicas.

    With onCorrupt=fail, raises `StoreDamaged` for missing files and missing confirmed log.
    """
    splits: list[LogSplit] = []
    for replica in replicas:
        if options.include in (LOG, ALL):
            splits += _plan_log(replica, options)
        if options.include in (CUT, ALL):
            splits += _plan_cut(replica, options)
    return splits


def upper_bound(replica: StoreDirectory, options: LogOptions) -> int:
    """Return the log offset where the read ends; by default at most the confirmed offset."""
    wanted = options.to_offset
    if wanted.isdecimal():
        return int(wanted)
    if wanted == END:
        return replica.end
    confirmed = replica.confirmed
    if confirmed is None and wanted == CONFIRMED:
        raise NotFound(
            f"{replica.path}: no checkpoint file says what is confirmed; use toOffset=end, or a"
            " number"
        )
    return replica.end if confirmed is None else confirmed


# The log -----------------------------------------------------------------------------------------


def _plan_log(replica: StoreDirectory, options: LogOptions) -> Iterator[LogSplit]:
    confirmed = replica.confirmed  # read first: a running broker moves both it and the end
    epochs = tuple(replica.epochs)
    top = upper_bound(replica, options)
    end = min(replica.end, confirmed) if top == confirmed else replica.end
    for low, high in _wanted(epochs, options, top):
        for file in replica.files:
            if file.start < min(high, end) and low < file.end:
                borders = _borders(replica, file, min(file.end, end), options.split_bytes)
                for start, stop in pairwise(borders):
                    if start < high and low < stop:
                        yield LogSplit(
                            replica.name, file, start, stop, low, high, epochs, confirmed
                        )
    for damage in _known_damage(replica, options, top, confirmed):
        if options.on_corrupt == REPORT:
            file, at = replica.file_at(damage.start) or replica.files[-1], damage.start
            yield LogSplit(
                replica.name, file, at, at, at, damage.end, epochs, confirmed, damaged=(damage,)
            )


def _wanted(
    epochs: tuple[EpochSpan, ...], options: LogOptions, top: int
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the log that the options select."""
    if options.epochs is None:
        yield options.from_offset, top
        return
    for epoch, start, end in epochs:
        low, high = max(start, options.from_offset), min(end, top)
        if epoch in options.epochs and low < high:
            yield low, high


def _borders(replica: StoreDirectory, file: LogFile, stop: int, split_bytes: int) -> list[int]:
    cuts = replica.borders(file, split_bytes) if file.size > split_bytes else []
    return [file.start, *(cut for cut in cuts if cut < stop), stop]


def _known_damage(
    replica: StoreDirectory, options: LogOptions, top: int, confirmed: int | None
) -> list[LogDamage]:
    """Return missing files, and confirmed log that is missing at the end.

    With onCorrupt=fail, raises `StoreDamaged` if there are any.
    """
    end, low = replica.end, options.from_offset
    found = [gap for gap in replica.gaps() if gap.start < top and low < gap.end]
    lost = confirmed or 0
    if options.to_offset != END:
        lost = min(lost, top)
    if lost > max(end, low):
        found.append(LogDamage(end, lost, "confirmed, but no sound record is there"))
    if found and options.on_corrupt == FAIL:
        raise StoreDamaged(f"{replica.path}: {found[0]}; {advice()}")
    if options.to_offset == END and replica.tail is not None and lost <= end:
        found.append(replica.tail)
    return found if replica.files else []


def advice() -> str:
    """Return the advice for error messages about damage."""
    return (
        "set onCorrupt=skip to read the records around it, or onCorrupt=report to have a row for"
        " each damaged range as well"
    )


# Truncated log -----------------------------------------------------------------------------------


def _plan_cut(replica: StoreDirectory, options: LogOptions) -> Iterator[LogSplit]:
    low, top = options.from_offset, options.to_offset
    for file in replica.cut_files:
        high = int(top) if top.isdecimal() else file.end
        wanted = options.epochs is None or file.epoch in options.epochs
        if wanted and file.size and file.start < high and low < file.end:
            yield LogSplit(replica.name, file, file.start, file.end, low, high, (), None)
