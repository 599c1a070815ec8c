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
"""How long a change waits for replicas at most: who asks for it waits 3 s as a rule."""
_SLACK_MS = 1_000
"""A replica whose wait is over watches for so long without asking again."""


class SinceHeader(Header):
    """Beside the fields of 21, 43, 45 and 201, which have none."""

    sinceStamp: str | None = None
    waitMillis: I64 | None = None


class StampHeader(Header):
    """Beside the fields of their answers."""

    stamp: str | None = None
    unchanged: bool | None = None
    delta: bool | None = None


def since(command: Command) -> str | None:
    """The stamp that whoever asks got last."""
    return decode_header(SinceHeader, command.ext).sinceStamp


def count_since(command: Command, boot: int) -> int | None:
    """What a stamp `boot.count` of this start counted; None for another's, or none."""
    begun, _, count = (since(command) or "").partition(".")
    return int(count) if begun == str(boot) and count.isdecimal() else None


def stamped(command: Command, stamp: str, make: Callable[[], bytes]) -> Reply:
    """The whole table, unless it is as it was at the stamp that the request brings."""
    if since(command) == stamp:
        return Reply(header=StampHeader(stamp, unchanged=True))
    return Reply(header=StampHeader(stamp), body=make())


def asking(stamp: str | None, wait_ms: int = 0) -> dict[str, str]:
    if stamp is None:
        return {}
    return {"sinceStamp": stamp, **({"waitMillis": str(wait_ms)} if wait_ms else {})}


class StampWait:
    """A change that is to be answered once everybody in `missing` has it.

    `count` is what the table had counted with it, for tables whose stamps count: one that always
    changes is taken all the same.
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
        """Whether who has the table as it counted `has` has the change."""
        return self.count is not None and has is not None and has >= self.count


class Watchers:
    """Requests of replicas that are kept until a table changes, and who has taken what changed.

    Whoever asks again with the stamp of now has taken the table as it is now.
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
        """Keep a request that wants to wait, while the table is as it was; whether it is kept.

        `count` is what the stamp that it brings counts, for `when_taken`.
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
        """Call `done` once all that watch the table of `code` have it as it is now, or late.

        `count`: what the table has counted now, if its stamps do.
        """
        missing = {
            session for (session, of), until in self._watching.items() if of == code and until > now
        }
        if missing:
            self._waits.append(StampWait(code, missing, now + TAKEN_WAIT_MS, done, count))
        else:
            done()

    def drop(self, session: int) -> None:
        """A connection is closed: whoever it was watches no more."""
        for key in [key for key in self._watching if key[0] == session]:
            del self._watching[key]
        for wait in self._waits:
            wait.missing.discard(session)

    @property
    def waiting(self) -> bool:
        """Whether `look` has anything to do."""
        return bool(self._held or self._waits)

    def look(self, now: int) -> None:
        """Answer those whose table changed, and those who waited long enough; once a turn."""
        if self._waits:
            self._confirm_stamps(now)
        if not self._held:
            return
        held, self._held = self._held, []
        for row in held:
            if row[0] <= now or row[1] != row[2]():
                row[3]()
            else:
                self._held.append(row)

    def _confirm_stamps(self, now: int) -> None:
        waits, self._waits = self._waits, []
        for wait in waits:
            if wait.missing and wait.until_ms > now:
                self._waits.append(wait)
            else:
                wait.done()
