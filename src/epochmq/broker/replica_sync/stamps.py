"""Asking for a table only if it changed: fields of ours beside RocketMQ's 21, 43, 45 and 201.

The answer to such a request carries `stamp`; whoever sends it back as `sinceStamp` is answered
`unchanged`, without a body, while nothing changed, or `delta`, with what changed since. With
`waitMillis` the master keeps the request until there is news, for so long: a topic is known to
replicas about when its creator is told, before most of its messages are there. A Java master knows
none of it and always answers the whole table; a Java slave skips the fields.
"""

from collections.abc import Callable

from epochmq.base import limits
from epochmq.wire.command import Command, Reply
from epochmq.wire.headers.base import I64, Header, decode_header

Stamp = Callable[[], str]
Answer = Callable[[], None]


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


def stamped(command: Command, stamp: str, make: Callable[[], bytes]) -> Reply:
    """The whole table, unless it is as it was at the stamp that the request brings."""
    if since(command) == stamp:
        return Reply(header=StampHeader(stamp, unchanged=True))
    return Reply(header=StampHeader(stamp), body=make())


def asking(stamp: str | None, wait_ms: int = 0) -> dict[str, str]:
    if stamp is None:
        return {}
    return {"sinceStamp": stamp, **({"waitMillis": str(wait_ms)} if wait_ms else {})}


class Watchers:
    """Requests of replicas that are kept until a table changes."""

    def __init__(self) -> None:
        self._held: list[tuple[int, str, Stamp, Answer]] = []

    def hold(self, command: Command, now: int, stamp: Stamp, answer: Answer) -> bool:
        """Keep a request that wants to wait, while the table is as it was; whether it is kept."""
        header = decode_header(SinceHeader, command.ext)
        wait_ms = min(header.waitMillis or 0, limits.HOLD_MS_MAX)
        if wait_ms <= 0 or header.sinceStamp != stamp() or len(self._held) >= limits.WATCHERS_MAX:
            return False
        self._held.append((now + wait_ms, stamp(), stamp, answer))
        return True

    def look(self, now: int) -> None:
        """Answer those whose table changed, and those who waited long enough; once a turn."""
        if not self._held:
            return
        held, self._held = self._held, []
        for row in held:
            if row[0] <= now or row[1] != row[2]():
                row[3]()
            else:
                self._held.append(row)
