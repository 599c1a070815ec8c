"""Numbers requests, and says things once."""

from epochmq.broker.membership.membership_effects import (
    Effect,
    MembershipReport,
    Question,
    SendCommand,
    Tag,
)
from epochmq.wire.command import Command


class Asker:
    """Makes requests that can be told apart when their answers come, however late."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._count = 0

    @property
    def newest(self) -> int:
        """The number of the last request."""
        return self._count

    def tag(self, kind: Question, address: str, now: int, epoch: int) -> Tag:
        self._count += 1
        return Tag(kind, address, self._count, now, epoch)

    def ask(
        self, kind: Question, command: Command, address: str, now: int, epoch: int
    ) -> SendCommand:
        return SendCommand(address, command, self.tag(kind, address, now, epoch), self._timeout_ms)


class Voice:
    """Lines for the log, each only when it says something else than the last one on its matter."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(self, about: str, text: str, *, problem: bool = True) -> list[Effect]:
        """The line as an effect, or nothing; an empty text ends the matter."""
        if self._said.get(about, "") == text:
            return []
        self._said[about] = text
        return [MembershipReport(text, problem)] if text else []
