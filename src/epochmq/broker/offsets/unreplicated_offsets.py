"""By what a slave that stood in is ahead of its master, until the master has all of it (INV-29).

A master that takes nothing back (skipPreOnline, RocketMQ's own after a timeout) goes on with old
offsets, and its slave copies them. Copied they may be, but not over newer ones: in each queue the
further offset stays, or the one that an admin set later. An offset that goes back at the master
itself while we watch was set back there, and counts. Whole tables of an older version than the one
before are those of a master that lost its last ones: they set nothing back
(H6).
"""

from epochmq.model.data_version import DataVersion

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
