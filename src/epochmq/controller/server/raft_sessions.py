"""Which incoming connections belong to configured controllers.

A Raft message names its sender, but any client can write such a name. So before the first message
of a connection counts, the named controller is asked at its configured address whether the
connection is its own. It recognises the random name that it sends over each connection. A client
that cannot answer at that address has no part in Raft.
"""

from collections import Counter
from dataclasses import dataclass, field

from epochmq.base import limits


@dataclass
class _Question:
    """A connection whose owner is being asked."""

    sender: str
    messages: list[bytes] = field(default_factory=list)
    size: int = 0


class RaftSessions:
    """Incoming connections, by session id."""

    def __init__(self) -> None:
        self._proven: dict[int, str] = {}
        self._questions: dict[int, _Question] = {}
        self._open: Counter[str] = Counter()
        """By controller: connections in question that claim to belong to it."""

    def sender_of(self, session_id: int) -> str | None:
        """Return the owner of the connection, or None if it is not known."""
        return self._proven.get(session_id)

    def hold(self, session_id: int, sender: str, data: bytes) -> bool:
        """Keep a message until its sender is known. Return True if `sender` must be asked now."""
        question = self._questions.get(session_id)
        asks = question is None and self._open[sender] < limits.RAFT_QUESTIONS_MAX
        if asks:
            question = self._questions[session_id] = _Question(sender)
            self._open[sender] += 1
        if question is None or question.sender != sender:
            return False
        question.size += len(data)
        full = len(question.messages) >= limits.RAFT_UNPROVEN_MESSAGES_MAX
        if not full and question.size <= limits.RAFT_UNPROVEN_BYTES_MAX:
            question.messages.append(data)
        return asks

    def prove(self, session_id: int) -> list[bytes]:
        """Note that the connection belongs to the controller. Return the kept messages in order."""
        question = self._drop_question(session_id)
        if question is None:
            return []
        self._proven[session_id] = question.sender
        return question.messages

    def forget(self, session_id: int) -> None:
        """Drop the kept messages, after the connection ended or its owner could not be found."""
        self._drop_question(session_id)
        self._proven.pop(session_id, None)

    def _drop_question(self, session_id: int) -> _Question | None:
        question = self._questions.pop(session_id, None)
        if question is not None:
            self._open[question.sender] -= 1
        return question
