"""Table stamps: replicas copy a table of the master only if it changed (codes 21, 43, 45 and 201).

EpochMQ adds header fields to these RocketMQ requests. The answer has a `stamp`. A replica sends it
back as `sinceStamp`, and the answer is `unchanged` without a body, or `delta` with the changes.
With `waitMillis` the master holds the request until the table changes, for at most that time. So
replicas know a new topic about when its creator gets the answer. A Java master ignores the fields
and always answers the whole table; a Java slave does not send them.
"""

from collections.abc import Callable

from epochmq.base import limits
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import I64, Header, decode_header

Stamp = Callable[[], str]
Answer = Callable[[], None]

TAKEN_WAIT_MS = 2_000
"""Longest time (ms) that a change waits for replicas; its client usually waits 3 s."""
_SLACK_MS = 1_000
"""Time (ms) after its wait in which a replica still counts as a watcher without a new request."""


class SinceHeader(Header):
    """EpochMQ's header fields of the requests 21, 43, 45 and 201."""

    sinceStamp: str | None = None
    waitMillis: I64 | None = None


class StampHeader(Header):
    """EpochMQ's header fields of the answers to these requests."""

    stamp: str | None = None
    unchanged: bool | None = None
    delta: bool | None = None


def since(command: Command) -> str | None:
    """Return the stamp that the requester received last; None if it sent none."""
    return decode_header(SinceHeader, command.ext).sinceStamp


def count_since(command: Command, boot: int) -> int | None:
    """Return the count in a stamp `boot.count` of this start; None for any other stamp."""
    begun, _, count = (since(command) or "").partition(".")
    return int(count) if begun == str(boot) and count.isdecimal() else None


def stamped(command: Command, stamp: str, make: Callable[[], bytes]) -> Reply:
    """Answer with the whole table, or with `unchanged` if the request has the present stamp."""
    if since(command) == stamp:
        return Reply(header=StampHeader(stamp, unchanged=True))
    return Reply(header=StampHeader(stamp), body=make())


def asking(stamp: str | None, wait_ms: int = 0) -> dict[str, str]:
    """Return the header fields of a question for a table; `stamp` is the one of the last answer.

    The first question, without a stamp, is answered at once. It says that the replica will wait for
    changes, so that changes wait for the replica from then on.
    """
    fields = {} if stamp is None else {"sinceStamp": stamp}
    return {**fields, "waitMillis": str(wait_ms)} if wait_ms else fields


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
