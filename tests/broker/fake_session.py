"""A session whose other end is the test."""

from collections.abc import Callable

from epochmq.wire.command import Command, Reply
from epochmq.wire.session import OnAnswer, Session


class NoTransport:
    """Takes everything and does nothing by itself."""

    def __init__(self) -> None:
        self.cut_for: str | None = None

    def wake(self) -> None:
        pass

    def cut(self, reason: str) -> None:
        self.cut_for = reason

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class FakeSession(Session):
    """Remembers what was asked of the peer and what was told to it, as commands."""

    __slots__ = ("asked", "replies", "told", "transport")

    def __init__(self, id: int = 1, *, peer: str = "10.0.0.9:40000") -> None:
        self.transport = NoTransport()
        super().__init__(id, self.transport, peer=peer)
        self.told: list[Command] = []
        self.replies: list[Reply] = []
        self.asked: list[tuple[Command, int, OnAnswer]] = []

    def oneway(self, command: Command) -> None:
        self.told.append(command)

    def answer(self, request: Command, reply: Reply) -> None:
        self.replies.append(reply)
        super().answer(request, reply)

    def request(self, command: Command, timeout_ms: int, on_answer: OnAnswer) -> None:
        self.asked.append((command, timeout_ms, on_answer))
