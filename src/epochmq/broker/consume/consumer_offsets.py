"""Consumer offsets: the next queue offset each group wants of each queue.

File: config/consumerOffset.json, rows named `topic@group`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.consume.ended_transactions import (
    ENDED_FIELD,
    EndedMark,
    EndedTransactions,
    marks_in,
)
from epochmq.model.data_version import DataVersion
from epochmq.model.names import HALF_TOPIC
from epochmq.wire import json_tolerant

# Deletions -----------------------------------------------------------------------------------
# When topics and groups were deleted last: offsets from before that mean messages that are gone.
#
# A deleted topic may be made anew under its name and begins at 0 again. Whoever was away then
# still has the old, larger offsets; beside ours they would win every comparison (INV-29, ADR
# 0067). So the times of deletions travel with the offsets, as `epochmqDropped`: `topic@` or
# `@group` to wall ms, which RocketMQ skips. A table without it is one of RocketMQ's, and says
# nothing of deletions.


FIELD = "epochmqDropped"


class Deletions:
    """Bounded: of very many deletions only the last are known."""

    __slots__ = ("_marks",)

    def __init__(self, marks: dict[str, int] | None = None) -> None:
        self._marks = marks or {}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> "Deletions | None":
        """Those of a file or body, None of one that says nothing; `msgspec.ValidationError`."""
        if FIELD not in content:
            return None
        return cls(msgspec.convert(content[FIELD], dict[str, int], strict=False))

    def topic(self, name: str, wall: int) -> None:
        self._mark(f"{name}@", wall)

    def group(self, name: str, wall: int) -> None:
        self._mark(f"@{name}", wall)

    def _mark(self, name: str, wall: int) -> None:
        """Later than the last one, also for a clock that was set back."""
        self._marks[name] = max(wall, self._marks.get(name, 0) + 1)
        self._bound()

    def since(self, key: str) -> int:
        """When a row, `topic@group`, can have begun at the earliest; 0 for any time."""
        topic, _, group = key.partition("@")
        return max(self._marks.get(f"{topic}@", 0), self._marks.get(f"@{group}", 0))

    def outdated(self, rows: Iterable[str], by: "Deletions") -> list[str]:
        """Those of these rows of ours that are from before a deletion that only `by` knows."""
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
# By what a slave that stood in is ahead of its master, until the master has all of it (INV-29).
#
# A master that takes nothing back (skipPreOnline, RocketMQ's own after a timeout) goes on with
# old offsets, and its slave copies them. Copied they may be, but not over newer ones: in each
# queue the further offset stays, or the one that an admin set later. An offset that goes back at
# the master itself while we watch was set back there, and counts. Whole tables of an older
# version than the one before are those of a master that lost its last ones: they set nothing
# back (H6).


Rows = dict[str, dict[int, int]]
"""Of offsets, or of marks (when an admin reset the queue, wall ms), by row and queue."""
_NONE = -1
"""The offset of a queue that a table does not have."""


class UnreplicatedOffsets:
    """`queues`: where ours goes before the master's; before the first table nobody knows."""

    def __init__(self) -> None:
        self.queues: set[tuple[str, int]] = set()
        self._told: Rows | None = None
        self._version = DataVersion()

    def keep(self, ours: tuple[Rows, Rows], theirs: tuple[Rows, Rows]) -> None:
        """Put into the master's rows and marks what ours are ahead by; all of each are here."""
        rows = theirs[0]
        self.queues.clear()
        told, self._told = self._told, {key: dict(row) for key, row in rows.items()}
        for key in ours[0]:
            self._keep_row(key, ours, theirs, None if told is None else told.get(key, {}))

    def keep_some(self, ours: tuple[Rows, Rows], theirs: tuple[Rows, Rows]) -> None:
        """The same for those rows of the master that changed."""
        told = self._told or {}
        for key, row in theirs[0].items():
            before, told[key] = told.get(key), dict(row)
            self.queues = {place for place in self.queues if place[0] != key}
            self._keep_row(key, ours, theirs, before)
        self._told = told

    def heard(self, version: DataVersion) -> None:
        """A whole table of this version comes next."""
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
    """Whether our (mark, offset) stays, where the master has `other` and told `told` before."""
    if told is None or other[1] == told:
        return own > other
    if other[1] < told:
        return False  # set back, or deleted, there
    return own[0] <= other[0] and own > other  # it goes on: a reset of ours is past


# Consumer offsets ----------------------------------------------------------------------------


_SYSTEM_ERROR = 1
_SEPARATOR = "@"
TRANSACTIONS = "CID_RMQ_SYS_TRANS"
"""Whose offsets the progress of transactions is, as in RocketMQ."""
_ENDED_WITH = f"{HALF_TOPIC}@{TRANSACTIONS}"
"""The row that ended transactions travel with."""
NONE = -1
"""What `get` says when a group never committed for a queue."""


class ConsumerOffsets:
    """A committed offset may go back: only an admin's reset or the client itself does that.

    The version steps once in `version_step` commits (consumerOffsetUpdateVersionStep), so that
    replicas notice without being called at every message.
    """

    file = "config/consumerOffset.json"

    def __init__(self, *, version_step: int = 500) -> None:
        self.version_step = version_step
        self.state_version = 0
        self.version = DataVersion()
        self.dirty = False
        self.table: dict[str, dict[int, int]] = {}
        self._resets: dict[str, dict[int, int]] = {}
        self.reset_marks: dict[str, dict[int, int]] = {}
        """Wall ms of the last reset by an admin, by row and queue: they travel with the rows, and
        in a merge the younger reset decides, not the larger offset."""
        self.dropped = Deletions()
        self.has_dropped = False
        """Something was deleted since this was last set to False: that has to be saved soon."""
        self._commits = 0
        self.changes = 0
        """Counts everything that changes a row."""
        self._recent: dict[str, int] = {}
        """Rows by their last change, the oldest first."""
        self._whole_before = 0
        """Rows went away at this count: what changed since an earlier one is the whole table."""
        self.ahead: UnreplicatedOffsets | None = None
        """While something here may be newer than what our master tells; see `keep_own`."""
        self.ended = EndedTransactions()
        """Transactions that are over, and no op message says so."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int, wall: int = 0) -> None:
        """Remember that `group` wants `offset` next. Raises `Refused` when the table is full."""
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
        self.changes += 1
        self._recent.pop(key, None)
        self._recent[key] = self.changes

    def changed_since(self, changes: int) -> dict[str, dict[int, int]] | None:
        """The rows that changed after `changes` was counted; None when that cannot be told."""
        if not self._whole_before <= changes <= self.changes:
            return None
        rows: dict[str, dict[int, int]] = {}
        for key in reversed(self._recent):
            if self._recent[key] <= changes:
                break
            rows[key] = self.table[key]
        return rows

    def adopt(self, content: dict[str, Any], *, whole: bool) -> None:
        """Take a master's rows over ours; with `whole` all others go.

        An empty table is a master's that has lost its own: it takes nothing away. What `keep_own`
        keeps stays.
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
        if whole and rows:
            self.table, self.reset_marks = rows, marks
        else:
            self.table.update(rows)
            unmarked = {k: v for k, v in self.reset_marks.items() if k not in rows}
            self.reset_marks = {**unmarked, **marks}
        self.version = version
        self._all_changed()

    def keep_own(self) -> None:
        """What a master tells from now on takes nothing back, until it has all that is here."""
        self.ahead = UnreplicatedOffsets()
        self.ended.ahead = bool(self.ended.marks)

    def _adopt_ended(
        self, content: dict[str, Any], rows: dict[str, dict[int, int]], *, whole: bool
    ) -> None:
        """A whole table, or the progress of transactions, says which ended as well."""
        told = marks_in(content)
        if _ENDED_WITH in rows or (whole and rows):
            progress = rows.get(_ENDED_WITH, {}).get(0, NONE)
            self.ended.adopt(told, progress, keep=self.ahead is not None)

    def note_ended(self, origin: int, mark: EndedMark) -> None:
        """A transaction ended where no op message can be written."""
        self.ended.add(origin, mark)
        self._ended_changed()

    def forget_ended(self) -> None:
        """The progress has come past all of them."""
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
        """Put what is further here into the master's rows; the version of both."""
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
        """Take out rows, of ours or another's, from before a deletion that one of both knows."""
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
        """Take from another replica what is ahead of ours, queue by queue; how many queues.

        The larger offset is the newer one, unless an admin reset the queue at only one of the two,
        or there later (H6); or their queue, or group, is another one by now, as deletions tell, or
        as `end` does, the end of a queue in a log that has everything. Rows of either side stay,
        and what ended at either. The version steps past both.
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
            ours, our_marks = self.table.setdefault(key, {}), self.reset_marks.get(key, {})
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
        """Who copies the table gets it whole."""
        self.dirty = True
        self.changes += 1
        self._recent.clear()
        self._whole_before = self.changes

    def _new_row(self, key: str) -> dict[int, int]:
        if len(self.table) >= limits.OFFSET_ROWS_MAX:
            raise Refused(_SYSTEM_ERROR, "the table of consumer offsets is full")
        return self.table.setdefault(key, {})

    def get(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset, or `NONE`; a pending reset goes before it."""
        key = f"{topic}@{group}"
        if self._resets:
            reset = self._resets.get(key, {}).get(queue_id)
            if reset is not None:
                return reset
        row = self.table.get(key)
        return NONE if row is None else row.get(queue_id, NONE)

    def row(self, group: str, topic: str) -> Mapping[int, int]:
        """Committed offsets by queue id; empty when there are none."""
        return self.table.get(f"{topic}@{group}", {})

    def reset(self, group: str, topic: str, queue_id: int, offset: int, wall: int) -> None:
        """An admin's reset by the broker: holds against commits until the next pull took it."""
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
        """When an admin set the queue's offset last (wall ms); 0 for never."""
        return self.reset_marks.get(f"{topic}@{group}", {}).get(queue_id, 0)

    def begun_at(self, group: str, topic: str, queue_id: int) -> int:
        """When the queue began anew for the group, by a reset or a deletion (wall ms)."""
        deleted_at = self.dropped.since(f"{topic}@{group}")
        return max(deleted_at, self.reset_at(group, topic, queue_id))

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return queue_id in self._resets.get(f"{topic}@{group}", {})

    def pop_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The pending reset of a queue, forgotten by this call: the pull that asks carries it."""
        key = f"{topic}@{group}"
        row = self._resets.get(key)
        if row is None:
            return None
        offset = row.pop(queue_id, None)
        if not row:
            del self._resets[key]
        return offset

    def clone(self, source: str, target: str, topic: str, wall: int) -> bool:
        """Give `target` the offsets that `source` has in `topic`; False when it has none."""
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
        """Topics in which the group has committed something."""
        return {topic for topic, other in self.pairs() if other == group}

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have committed something in the topic."""
        return {group for other, group in self.pairs() if other == topic}

    def pairs(self) -> list[tuple[str, str]]:
        """All (topic, group) with offsets."""
        pairs = []
        for key in self.table:
            topic, _, group = key.partition(_SEPARATOR)
            pairs.append((topic, group))
        return pairs

    def drop_group(self, group: str, wall: int) -> int:
        """Forget all offsets of a deleted group; how many topics that were."""
        self.dropped.group(group, wall)
        return self._drop(lambda _, other: other == group, wall)

    def drop_topic(self, topic: str, wall: int) -> int:
        """Forget all offsets in a deleted topic; how many groups that were."""
        self.dropped.topic(topic, wall)
        return self._drop(lambda other, _: other == topic, wall)

    def _drop(self, unwanted: Callable[[str, str], bool], wall: int) -> int:
        doomed = [f"{topic}@{group}" for topic, group in self.pairs() if unwanted(topic, group)]
        for key in doomed:
            self._forget(key)
        self.has_dropped = True
        self.changes += 1
        self._whole_before = self.changes
        self._changed(wall)
        return len(doomed)

    def _forget(self, key: str) -> None:
        del self.table[key]
        self._resets.pop(key, None)
        self.reset_marks.pop(key, None)
        self._recent.pop(key, None)

    def lowest(self, topic: str, ignored_groups: frozenset[str]) -> dict[int, int]:
        """By queue id, the smallest offset that any group, but the ignored, has in `topic`."""
        lowest: dict[int, int] = {}
        for other, group in self.pairs():
            if other == topic and group not in ignored_groups:
                for queue_id, offset in self.table[f"{topic}@{group}"].items():
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        return lowest

    def _changed(self, wall: int) -> None:
        self.version = self.version.next_version(wall, self.state_version)
        self.dirty = True

    def content(self, rows: Mapping[str, dict[int, int]] | None = None) -> dict[str, Any]:
        """The shape of the file and of GET_ALL_CONSUMER_OFFSET's body; of these rows only, or all.

        `epochmqResetMarks` and `epochmqEndedHalves` are ours, and there only if somebody reset
        something, or transactions ended where no op message could be written; `epochmqDropped`
        is in each whole table, so that who reads it knows that deletions are told.
        """
        table = self.table if rows is None else rows
        content: dict[str, Any] = {"dataVersion": self.version, "offsetTable": table}
        if rows is None:
            content[FIELD] = self.dropped.marks()
        if self.reset_marks:
            marks = {key: row for key, row in self.reset_marks.items() if key in table}
            content["epochmqResetMarks"] = marks
        if self.ended.marks and (rows is None or _ENDED_WITH in rows):
            content[ENDED_FIELD] = self.ended.marks
        return content

    def encode(self) -> bytes:
        return json_tolerant.dumps(self.content())

    def load(self, content: dict[str, Any]) -> None:
        """Take over consumerOffset.json; queue ids may be bare or quoted integers."""
        self.table, self.version = _rows(content)
        self.reset_marks = _marks(content)
        self.dropped = Deletions.from_content(content) or Deletions()
        self.ended.marks = marks_in(content)


def _topic_of(key: str) -> str:
    return key.partition(_SEPARATOR)[0]


def _rows(content: dict[str, Any]) -> tuple[dict[str, dict[int, int]], DataVersion]:
    """Rows and version of a file or body."""
    rows = msgspec.convert(
        content.get("offsetTable") or {}, dict[str, dict[int, int]], strict=False
    )
    version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
    return rows, version


def _marks(content: dict[str, Any]) -> dict[str, dict[int, int]]:
    """By row and queue when it was reset; those of our release have it."""
    return msgspec.convert(
        content.get("epochmqResetMarks") or {}, dict[str, dict[int, int]], strict=False
    )
