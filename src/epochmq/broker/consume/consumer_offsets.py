"""Consumer offsets: the next queue offset that each consumer group reads from each queue.

RocketMQ's ConsumerOffsetManager. File: config/consumerOffset.json, with rows named `topic@group`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.consume.delivered_resets import DeliveredResets
from epochmq.broker.consume.ended_transactions import (
    ENDED_FIELD,
    EndedMark,
    EndedTransactions,
    marks_in,
)
from epochmq.broker.consume.offset_index import SEPARATOR, OffsetIndex
from epochmq.broker.state.row_changes import RowChanges, TablePart
from epochmq.model.data_version import DataVersion
from epochmq.model.names import HALF_TOPIC
from epochmq.wire import json_tolerant

# Deletions -----------------------------------------------------------------------------------
# The last deletion time of topics and groups. Offsets from before it refer to deleted messages.
#
# A deleted topic may be created again under its name and then begins at 0. A replica that was down
# meanwhile still has the old, larger offsets, which would win every comparison (INV-29, ADR 0067).
# So the deletion times are copied with the offsets, in `epochmqDropped`: `topic@` or `@group` to
# wall ms. RocketMQ ignores the field. A table without it comes from RocketMQ and says nothing about
# deletions.


FIELD = "epochmqDropped"


class Deletions:
    """Deletion times (wall ms) of topics and groups; only the latest are kept."""

    __slots__ = ("_marks",)

    def __init__(self, marks: dict[str, int] | None = None) -> None:
        self._marks = marks or {}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> "Deletions | None":
        """Read the deletions of a file or body; None if it has none.

        Raises `msgspec.ValidationError` on a wrong form.
        """
        if FIELD not in content:
            return None
        return cls(msgspec.convert(content[FIELD], dict[str, int], strict=False))

    def topic(self, name: str, wall: int) -> None:
        self._mark(f"{name}@", wall)

    def group(self, name: str, wall: int) -> None:
        self._mark(f"@{name}", wall)

    def _mark(self, name: str, wall: int) -> None:
        """Set the time of a deletion, later than the last one even if the clock went back."""
        self._marks[name] = max(wall, self._marks.get(name, 0) + 1)
        self._bound()

    def since(self, key: str) -> int:
        """Return the last deletion (wall ms) that affects row `topic@group`; 0 for none."""
        topic, _, group = key.partition("@")
        return max(self._marks.get(f"{topic}@", 0), self._marks.get(f"@{group}", 0))

    def outdated(self, rows: Iterable[str], by: "Deletions") -> list[str]:
        """Return those of `rows` that are older than a deletion that only `by` contains."""
        return [key for key in rows if by.since(key) > self.since(key)]

    def join(self, other: "Deletions") -> None:
        for name, mark in other.marks().items():
            self._marks[name] = max(mark, self._marks.get(name, 0))
        self._bound()

    def _bound(self) -> None:
        while len(self._marks) > limits.DELETIONS_KNOWN_MAX:
            del self._marks[min(self._marks, key=self._marks.__getitem__)]

    def marks(self) -> dict[str, int]:
        return dict(self._marks)


# Unreplicated offsets ------------------------------------------------------------------------
# Offsets of a former acting master that its master does not have yet (INV-29).
#
# A returning master may not take the offsets back (skipPreOnline, or RocketMQ's master after a
# timeout). It continues with old offsets, and its slave copies them. The copy must not overwrite
# newer offsets: in each queue the larger offset stays, or the one that an admin set later. If an
# offset goes back at the master between two copies, it was reset there, and the slave follows. A
# whole table of an older version than before comes from a master that lost its last offsets, and
# resets nothing (H6).


Rows = dict[str, dict[int, int]]
"""Offsets, or reset marks (when an admin reset the queue, wall ms), by row and queue id."""
_NONE = -1
"""The offset of a queue that is not in a table."""


class UnreplicatedOffsets:
    """Tracks where this replica's offsets are newer than the master's.

    `queues` has these places as (row, queue id); it is empty before the first table.
    """

    def __init__(self) -> None:
        self.queues: set[tuple[str, int]] = set()
        self._told: Rows | None = None
        self._version = DataVersion()

    def keep(self, ours: tuple[Rows, Rows], theirs: tuple[Rows, Rows]) -> None:
        """Put the newer offsets of `ours` into `theirs`, the whole table of the master.

        Both are (rows, reset marks); `theirs` is changed in place.
        """
        rows = theirs[0]
        self.queues.clear()
        told, self._told = self._told, {key: dict(row) for key, row in rows.items()}
        for key in ours[0]:
            self._keep_row(key, ours, theirs, None if told is None else told.get(key, {}))

    def keep_some(self, ours: tuple[Rows, Rows], theirs: tuple[Rows, Rows]) -> None:
        """Do the same as `keep` with only the changed rows of the master."""
        told = self._told or {}
        for key, row in theirs[0].items():
            before, told[key] = told.get(key), dict(row)
            self.queues = {place for place in self.queues if place[0] != key}
            self._keep_row(key, ours, theirs, before)
        self._told = told

    def heard(self, version: DataVersion) -> None:
        """Note the version of the whole table that is kept next."""
        if version < self._version:
            self._told = None
        self._version = version

    def _keep_row(
        self,
        key: str,
        ours: tuple[Rows, Rows],
        theirs: tuple[Rows, Rows],
        told: dict[int, int] | None,
    ) -> None:
        our_marks, their_marks = ours[1].get(key, {}), theirs[1].get(key, {})
        their_row = theirs[0].get(key, {})
        for queue_id, offset in ours[0].get(key, {}).items():
            own = our_marks.get(queue_id, 0), offset
            other = their_marks.get(queue_id, 0), their_row.get(queue_id, _NONE)
            before = None if told is None else told.get(queue_id, _NONE)
            if not _goes_before(own, other, before):
                continue
            self.queues.add((key, queue_id))
            theirs[0].setdefault(key, {})[queue_id] = offset
            if own[0]:
                theirs[1].setdefault(key, {})[queue_id] = own[0]


def _goes_before(own: tuple[int, int], other: tuple[int, int], told: int | None) -> bool:
    """Return whether our (mark, offset) stays.

    The master has `other` now, and had offset `told` before (None: unknown).
    """
    if told is None or other[1] == told:
        return own > other
    if other[1] < told:
        return False  # reset or deleted at the master
    return own[0] <= other[0] and own > other  # the master moves on: our reset is outdated


# Consumer offsets ----------------------------------------------------------------------------


_SYSTEM_ERROR = 1
TRANSACTIONS = "CID_RMQ_SYS_TRANS"
"""The group whose offsets are the progress of transactions, as in RocketMQ."""
_ENDED_WITH = f"{HALF_TOPIC}@{TRANSACTIONS}"
"""The row with which the marks of ended transactions are copied."""
NONE = -1
"""Result of `get` if a group never committed an offset for a queue."""


class ConsumerOffsets:
    """All committed offsets of a broker.

    A committed offset may go back, by an admin's reset or by the client itself. The version steps
    once for every `version_step` commits (consumerOffsetUpdateVersionStep), so that replicas notice
    changes without a call for each message.
    """

    file = "config/consumerOffset.json"
    replicas_know_deltas: ClassVar[bool] = True

    def __init__(self, *, version_step: int = 500) -> None:
        self.version_step = version_step
        self.state_version = 0
        self.version = DataVersion()
        self.dirty = False
        self.table: dict[str, dict[int, int]] = {}
        self._index: OffsetIndex | None = None
        """Made when it is asked for: a replica, which replaces its table, does not need it."""
        self._resets: dict[str, dict[int, int]] = {}
        self.delivered_resets = DeliveredResets()
        self.reset_marks: dict[str, dict[int, int]] = {}
        """Time of the last reset by an admin (wall ms), by row and queue. The marks are copied with
        the rows; in a merge the later reset wins, not the larger offset."""
        self.dropped = Deletions()
        self.has_dropped = False
        """Whether something was deleted since the last save; it must be saved soon."""
        self._commits = 0
        self.changes = RowChanges[str]()
        """For the copies of replicas. After a row was removed, they copy the whole table."""
        self.ahead: UnreplicatedOffsets | None = None
        """Set while an offset here may be newer than at the master; see `keep_own`."""
        self.ended = EndedTransactions()
        """Marks of transactions that ended without an op message."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int, wall: int = 0) -> None:
        """Commit `offset`, the next queue offset that `group` reads.

        Raises `Refused` if the table is full.
        """
        key = f"{topic}@{group}"
        row = self.table.get(key)
        if row is None:
            row = self._new_row(key)
        row[queue_id] = offset
        self._touch(key)
        self._commits += 1
        if self._commits % self.version_step == 0:
            self.version = self.version.next_version(wall, self.state_version)

    def _touch(self, key: str) -> None:
        self.dirty = True
        self.changes.touch(key)

    def adopt(self, content: dict[str, Any], *, whole: bool) -> None:
        """Take over the rows of the master; with `whole`, all other rows are removed.

        An empty table comes from a master that lost its offsets, and removes nothing. Offsets that
        `keep_own` protects stay. Raises `ValueError` if there are too many rows.
        """
        rows, version = _rows(content)
        marks, dropped = _marks(content), Deletions.from_content(content)
        if len(rows) > limits.OFFSET_ROWS_MAX:
            raise ValueError(f"{len(rows)} rows of offsets are more than {limits.OFFSET_ROWS_MAX}")
        self._adopt_ended(content, rows, whole=whole)
        if self.ahead is not None:
            self._apply_deletions(rows, dropped)
            version = self._keep(self.ahead, rows, marks, version, whole=whole)
        elif dropped is not None and rows:
            self.dropped = dropped
        self.version = version
        if whole and rows:
            self.table, self.reset_marks = rows, marks
            self._index = None
            self._all_changed()
            return
        self.table.update(rows)
        self._index = None
        unmarked = {k: v for k, v in self.reset_marks.items() if k not in rows}
        self.reset_marks = {**unmarked, **marks}
        for key in rows:
            self.changes.touch(key)
        if dropped is not None:
            self.changes.renew(self.table)
        self.dirty = True

    def keep_own(self) -> None:
        """Protect newer offsets of this replica until the master has all of them."""
        self.ahead = UnreplicatedOffsets()
        self.ended.ahead = bool(self.ended.marks)

    def _adopt_ended(
        self, content: dict[str, Any], rows: dict[str, dict[int, int]], *, whole: bool
    ) -> None:
        """Take over the marks of ended transactions from the master.

        They come with a whole table, or with the row of the transaction progress.
        """
        told = marks_in(content)
        if _ENDED_WITH in rows or (whole and rows):
            progress = rows.get(_ENDED_WITH, {}).get(0, NONE)
            self.ended.adopt(told, progress, keep=self.ahead is not None)

    def note_ended(self, origin: int, mark: EndedMark) -> None:
        """Mark a transaction as ended, because no op message can be written for it."""
        self.ended.add(origin, mark)
        self._ended_changed()

    def forget_ended(self) -> None:
        """Remove all marks of ended transactions, because the progress has passed them."""
        self.ended.marks = {}
        self._ended_changed()

    def _ended_changed(self) -> None:
        if _ENDED_WITH in self.table:
            self._touch(_ENDED_WITH)
        else:
            self._all_changed()

    def _keep(
        self,
        ahead: UnreplicatedOffsets,
        rows: dict[str, dict[int, int]],
        marks: dict[str, dict[int, int]],
        version: DataVersion,
        *,
        whole: bool,
    ) -> DataVersion:
        """Put newer own offsets into the master's rows; return the higher version."""
        ours, theirs = (self.table, self.reset_marks), (rows, marks)
        if not whole:
            ahead.keep_some(ours, theirs)
        elif rows:
            ahead.heard(version)
            ahead.keep(ours, theirs)
        if rows and not ahead.queues and not self.ended.ahead:
            self.ahead = None
        return max(version, self.version)

    def _apply_deletions(self, rows: dict[str, dict[int, int]], dropped: Deletions | None) -> None:
        """Remove rows, own and received, that are older than a deletion at the other side."""
        if dropped is None:
            return
        for key in dropped.outdated(rows, self.dropped):
            del rows[key]
        for key in self.dropped.outdated(self.table, dropped):
            self._forget(key)
        self.dropped.join(dropped)

    def merge(
        self, content: dict[str, Any], wall: int, end: Callable[[str, int], int] | None = None
    ) -> int:
        """Merge newer offsets of another replica, queue by queue; return how many were taken.

        The larger offset is the newer one, unless an admin reset the queue later at one side (H6).
        Offsets from before a deletion are ignored, and so are offsets beyond `end`, the end of the
        queue in a complete log: their topic or group was deleted and created again. Rows and marks
        of ended transactions of both sides stay. The new version is higher than both.
        """
        rows, version = _rows(content)
        marks = _marks(content)
        dropped, ended = Deletions.from_content(content), marks_in(content)
        self._apply_deletions(rows, dropped)
        self.ended.merge(ended)
        taken = 0
        for key, row in rows.items():
            if key not in self.table and len(self.table) >= limits.OFFSET_ROWS_MAX:
                continue
            ours, our_marks = self._row(key), self.reset_marks.get(key, {})
            for queue_id, offset in row.items():
                if offset < 0 or (end is not None and offset > end(_topic_of(key), queue_id)):
                    continue
                here = our_marks.get(queue_id, 0), ours.get(queue_id, NONE)
                there = marks.get(key, {}).get(queue_id, 0), offset
                if there > here:
                    ours[queue_id] = offset
                    if there[0]:
                        self.reset_marks.setdefault(key, {})[queue_id] = there[0]
                    taken += 1
        self.version = max(version, self.version).next_version(wall, self.state_version)
        self._all_changed()
        return taken

    def _all_changed(self) -> None:
        """Make every replica copy the whole table."""
        self.dirty = True
        self.changes.renew(self.table)

    def _new_row(self, key: str) -> dict[int, int]:
        if len(self.table) >= limits.OFFSET_ROWS_MAX:
            raise Refused(_SYSTEM_ERROR, "the table of consumer offsets is full")
        return self._row(key)

    def _row(self, key: str) -> dict[int, int]:
        row = self.table.get(key)
        if row is None:
            row = self.table[key] = {}
            if self._index is not None:
                self._index.add(key)
        return row

    @property
    def index(self) -> OffsetIndex:
        """The rows by topic and by group."""
        if self._index is None:
            self._index = OffsetIndex(self.table)
        return self._index

    def get(self, group: str, topic: str, queue_id: int) -> int:
        """Return the committed offset, or a pending reset instead; `NONE` if there is neither."""
        key = f"{topic}@{group}"
        if self._resets:
            reset = self._resets.get(key, {}).get(queue_id)
            if reset is not None:
                return reset
        row = self.table.get(key)
        return NONE if row is None else row.get(queue_id, NONE)

    def row(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the committed offsets by queue id; empty if there are none."""
        return self.table.get(f"{topic}@{group}", {})

    def reset(self, group: str, topic: str, queue_id: int, offset: int, wall: int) -> None:
        """Set an offset for an admin; it wins over commits until the next pull uses it."""
        key = f"{topic}@{group}"
        row = self.table.get(key)
        if row is None:
            row = self._new_row(key)
        row[queue_id] = offset
        self._touch(key)
        self._resets.setdefault(key, {})[queue_id] = offset
        marks = self.reset_marks.setdefault(key, {})
        marks[queue_id] = max(wall, marks.get(queue_id, 0) + 1)
        self._changed(wall)

    def reset_at(self, group: str, topic: str, queue_id: int) -> int:
        """Return when an admin last reset the offset of the queue (wall ms); 0 for never."""
        return self.reset_marks.get(f"{topic}@{group}", {}).get(queue_id, 0)

    def begun_at(self, group: str, topic: str, queue_id: int) -> int:
        """Return the last reset or deletion that affects the queue (wall ms); 0 for none."""
        deleted_at = self.dropped.since(f"{topic}@{group}")
        return max(deleted_at, self.reset_at(group, topic, queue_id))

    @property
    def has_resets(self) -> bool:
        """Whether any queue has a pending reset."""
        return bool(self._resets)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return queue_id in self._resets.get(f"{topic}@{group}", {})

    def pop_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove and return the pending reset of a queue, for the pull that uses it."""
        key = f"{topic}@{group}"
        row = self._resets.get(key)
        if row is None:
            return None
        offset = row.pop(queue_id, None)
        if not row:
            del self._resets[key]
        return offset

    def clone(self, source: str, target: str, topic: str, wall: int) -> bool:
        """Copy the offsets of group `source` in `topic` to group `target`.

        Returns False if `source` has none. Raises `Refused` if the table is full.
        """
        row = self.table.get(f"{topic}@{source}")
        if row is None:
            return False
        key = f"{topic}@{target}"
        if key not in self.table:
            self._new_row(key)
        self.table[key] = dict(row)
        self._touch(key)
        self._changed(wall)
        return True

    def topics_of(self, group: str) -> set[str]:
        """Return the topics in which the group has committed offsets."""
        return self.index.topics_of(group)

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that have committed offsets in the topic."""
        return self.index.groups_of(topic)

    def pairs(self) -> list[tuple[str, str]]:
        """Return all (topic, group) pairs that have offsets."""
        pairs = []
        for key in self.table:
            topic, _, group = key.partition(SEPARATOR)
            pairs.append((topic, group))
        return pairs

    def drop_group(self, group: str, wall: int) -> int:
        """Remove all offsets of a deleted group; return the number of its topics."""
        self.dropped.group(group, wall)
        return self._drop([f"{topic}@{group}" for topic in self.topics_of(group)], wall)

    def drop_topic(self, topic: str, wall: int) -> int:
        """Remove all offsets in a deleted topic; return the number of its groups."""
        self.dropped.topic(topic, wall)
        return self._drop([f"{topic}@{group}" for group in self.groups_of(topic)], wall)

    def _drop(self, doomed: list[str], wall: int) -> int:
        for key in doomed:
            self._forget(key)
        self.has_dropped = True
        self._all_changed()
        self._changed(wall)
        return len(doomed)

    def _forget(self, key: str) -> None:
        del self.table[key]
        if self._index is not None:
            self._index.remove(key)
        self._resets.pop(key, None)
        self.reset_marks.pop(key, None)

    def lowest(self, topic: str, ignored_groups: frozenset[str]) -> dict[int, int]:
        """Return the smallest offset of any group in `topic`, by queue id.

        `ignored_groups` do not count.
        """
        lowest: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group not in ignored_groups:
                for queue_id, offset in self.table[f"{topic}@{group}"].items():
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        return lowest

    def _changed(self, wall: int) -> None:
        self.version = self.version.next_version(wall, self.state_version)
        self.dirty = True

    def weigh(self, key: str) -> int:
        """Return the estimated bytes of a row in JSON."""
        places = len(self.table[key]) + len(self.reset_marks.get(key, ()))
        return len(key) + 32 * places + 64

    def encode_part(self, part: TablePart[str]) -> bytes:
        """Return the body of GET_ALL_CONSUMER_OFFSET with the rows of a part."""
        rows = {key: self.table[key] for key in part.rows}
        return json_tolerant.dumps(self.content(rows, whole=not part.is_delta))

    def content(
        self, rows: Mapping[str, dict[int, int]] | None = None, *, whole: bool = False
    ) -> dict[str, Any]:
        """Return the content of the file and of GET_ALL_CONSUMER_OFFSET; `rows` limits it.

        With `whole`, the rows are the first part of the whole table.

        The `epochmq...` fields are EpochMQ only. `epochmqResetMarks` and `epochmqEndedHalves` are
        present only if there are such marks. `epochmqDropped` is in each whole table, so that the
        reader knows that deletions are included.
        """
        table = self.table if rows is None else rows
        content: dict[str, Any] = {"dataVersion": self.version, "offsetTable": table}
        if rows is None or whole:
            content[FIELD] = self.dropped.marks()
        marks = self.reset_marks
        if marks:
            content["epochmqResetMarks"] = {key: marks[key] for key in table if key in marks}
        if self.ended.marks and (rows is None or whole or _ENDED_WITH in rows):
            content[ENDED_FIELD] = self.ended.marks
        return content

    def encode(self) -> bytes:
        return json_tolerant.dumps(self.content())

    def load(self, content: dict[str, Any]) -> None:
        """Load consumerOffset.json; queue ids may be bare or quoted integers."""
        self.table, self.version = _rows(content)
        self.reset_marks = _marks(content)
        self.dropped = Deletions.from_content(content) or Deletions()
        self.ended.marks = marks_in(content)
        self.changes.renew(self.table)
        self._index = OffsetIndex(self.table)


def _topic_of(key: str) -> str:
    return key.partition(SEPARATOR)[0]


def _rows(content: dict[str, Any]) -> tuple[dict[str, dict[int, int]], DataVersion]:
    """Read the rows and the version of a file or body."""
    rows = msgspec.convert(
        content.get("offsetTable") or {}, dict[str, dict[int, int]], strict=False
    )
    version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
    return rows, version


def _marks(content: dict[str, Any]) -> dict[str, dict[int, int]]:
    """Read the reset marks by row and queue; tables of RocketMQ have none."""
    return msgspec.convert(
        content.get("epochmqResetMarks") or {}, dict[str, dict[int, int]], strict=False
    )
