"""Table stamps: replicas copy from a table of the master only what changed.

This applies to the requests 21, 43, 45, 201, 402, 34007 and 34009.

EpochMQ adds header fields to these RocketMQ requests. The answer has a `stamp`. A replica sends it
back as `sinceStamp`, and the answer is `unchanged` without a body, or `delta` with the changes.
With `waitMillis` the master holds the request until the table changes, for at most that time. So
replicas know a new topic about when its creator gets the answer.

With `inParts` a table that is larger than a part comes in several answers (ADR 0109). Each has the
rows that changed after the last one, and `more` while another part follows; the requester joins
them (`wire/table_parts.py`). A Java master ignores the fields and always answers the whole table; a
Java slave does not send them.
"""

from collections.abc import Callable, Hashable
from typing import ClassVar, Protocol, TypeVar

from epochmq.base import limits
from epochmq.broker.state.row_changes import PART_BYTES, RowChanges, TablePart
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.table_parts import SinceHeader, StampHeader

K = TypeVar("K", bound=Hashable)

Stamp = Callable[[], str]
Answer = Callable[[], None]

TAKEN_WAIT_MS = 2_000
"""Longest time (ms) that a change waits for replicas; its client usually waits 3 s."""
_SLACK_MS = 1_000
"""Time (ms) after its wait in which a replica still counts as a watcher without a new request."""


def count_since(command: Command, boot: int) -> int | None:
    """Return the count in a stamp `boot.count` of this start; None for any other stamp."""
    stamp = decode_header(SinceHeader, command.ext).sinceStamp
    begun, _, count = (stamp or "").partition(".")
    # No count has 20 digits; int() of a long text takes long.
    known = begun == str(boot) and len(count) < 20 and count.isdecimal()
    return int(count) if known else None


def stamped(command: Command, stamp: str, make: Callable[[], bytes]) -> Reply:
    """Answer with the whole table, or with `unchanged` if the request has the present stamp."""
    if decode_header(SinceHeader, command.ext).sinceStamp == stamp:
        return Reply(header=StampHeader(stamp, unchanged=True))
    return Reply(header=StampHeader(stamp), body=make())


class CopiedRows(Protocol[K]):
    """A table of which replicas copy the changed rows."""

    replicas_know_deltas: ClassVar[bool]
    """Whether replicas of older releases, which do not send `inParts`, know changes of this table.
    Otherwise they would take them for the whole table."""

    @property
    def changes(self) -> RowChanges[K]: ...

    def weigh(self, key: K, /) -> int:
        """Return the estimated bytes of a row in JSON."""
        ...

    def encode_part(self, part: TablePart[K], /) -> bytes:
        """Return the body of an answer with the rows of `part`."""
        ...


def changed_rows(command: Command, boot: int, table: CopiedRows[K]) -> Reply:
    """Answer with the rows that changed since the stamp of the request, or with `unchanged`.

    A request without `inParts` gets all its rows in one answer. `boot` is the start time of this
    broker, the first part of its stamps.
    """
    header = decode_header(SinceHeader, command.ext)
    count, changes = count_since(command, boot), table.changes
    if count == changes.count:
        return Reply(header=StampHeader(header.sinceStamp, unchanged=True))
    if not (header.inParts or table.replicas_know_deltas):
        count = None
    part = changes.since(count, table.weigh if header.inParts else None, PART_BYTES)
    reply = StampHeader(
        f"{boot}.{part.count}", delta=part.is_delta or None, more=part.has_more or None
    )
    return Reply(header=reply, body=table.encode_part(part))


class StampWait:
    """A change whose answer waits until all sessions in `missing` have copied it.

    `count` is the change count of the table with this change, for tables whose stamps contain a
    count. So a table that changes all the time still counts as copied.
    """

    __slots__ = ("code", "count", "done", "missing", "until_ms")

    def __init__(
        self, code: int, missing: set[int], until_ms: int, done: Answer, count: int | None
    ) -> None:
        self.code = code
        self.missing = missing
        self.until_ms = until_ms
        self.done = done
        self.count = count

    def is_in(self, has: int | None) -> bool:
        """Return whether a copy of the table at count `has` includes the change."""
        return self.count is not None and has is not None and has >= self.count


class Watchers:
    """Requests of replicas that wait for a table change, and changes that wait for replicas.

    A replica that asks again with the present stamp has copied the present table.
    """

    def __init__(self) -> None:
        self._held: list[tuple[int, str, Stamp, Answer]] = []
        self._watching: dict[tuple[int, int], int] = {}
        """(session, code of the table) -> until when it counts as a watcher."""
        self._waits: list[StampWait] = []

    def hold(
        self,
        command: Command,
        now: int,
        stamp: Stamp,
        answer: Answer,
        session: int = 0,
        count: int | None = None,
    ) -> bool:
        """Hold a request that wants to wait while the table is unchanged; return whether held.

        `now` is monotonic ms. `count` is the count in the stamp of the request, for `when_taken`.
        """
        header = decode_header(SinceHeader, command.ext)
        wait_ms = min(header.waitMillis or 0, limits.HOLD_MS_MAX)
        if wait_ms <= 0:
            return False
        is_current = header.sinceStamp == stamp()
        self._watches(session, command.code, now + wait_ms + _SLACK_MS)
        for wait in self._waits:
            if wait.code == command.code and (is_current or wait.is_in(count)):
                wait.missing.discard(session)
        if not is_current or len(self._held) >= limits.WATCHERS_MAX:
            return False
        self._held.append((now + wait_ms, stamp(), stamp, answer))
        return True

    def _watches(self, session: int, code: int, until: int) -> None:
        key = (session, code)
        if key in self._watching or len(self._watching) < limits.WATCHERS_MAX:
            self._watching[key] = until

    def when_taken(self, code: int, now: int, done: Answer, count: int | None = None) -> None:
        """Call `done` when all watchers of the table of `code` have copied its present state.

        `done` is called after `TAKEN_WAIT_MS` at the latest. `count` is the present change count of
        the table, if its stamps contain one.
        """
        missing = {
            session for (session, of), until in self._watching.items() if of == code and until > now
        }
        if missing:
            self._waits.append(StampWait(code, missing, now + TAKEN_WAIT_MS, done, count))
        else:
            done()

    def drop(self, session: int) -> None:
        """Remove a closed connection from the watchers."""
        for key in [key for key in self._watching if key[0] == session]:
            del self._watching[key]
        for wait in self._waits:
            wait.missing.discard(session)

    @property
    def waiting(self) -> bool:
        """Whether `look` has anything to do."""
        return bool(self._held or self._waits)

    def look(self, now: int) -> None:
        """Answer requests whose table changed or whose wait is over; call it once a turn."""
        if self._waits:
            self._confirm_stamps(now)
        if not self._held:
            return
        due = [row for row in self._held if row[0] <= now or row[1] != row[2]()]
        if not due:
            return
        answered = set(map(id, due))
        self._held = [row for row in self._held if id(row) not in answered]
        for _, _, _, answer in due:
            answer()

    def _confirm_stamps(self, now: int) -> None:
        waits, self._waits = self._waits, []
        for wait in waits:
            if wait.missing and wait.until_ms > now:
                self._waits.append(wait)
            else:
                wait.done()
