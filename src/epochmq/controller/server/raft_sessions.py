"""Which incoming connections are those of configured controllers.

A message of Raft names its sender, and anybody can write a name. So before a connection's first
message counts, the controller named is asked at its configured address whether the connection is
its own; it knows by a word that it draws for each connection and sends along. Who cannot answer
at that address has no part in Raft.
"""

from collections import Counter
from dataclasses import dataclass, field

from epochmq.base import limits


@dataclass
class _Question:
    """A connection whose owner is being asked for."""

    sender: str
    messages: list[bytes] = field(default_factory=list)
    size: int = 0


class RaftSessions:
    """Incoming connections by the ids of their sessions."""

    def __init__(self) -> None:
        self._proven: dict[int, str] = {}
        self._questions: dict[int, _Question] = {}
        self._open: Counter[str] = Counter()
        """By controller: connections in question that claim to be its own."""

    def sender_of(self, session_id: int) -> str | None:
        """Whose connection it is; None while that is not known."""
        return self._proven.get(session_id)

    def hold(self, session_id: int, sender: str, data: bytes) -> bool:
        """Keep a message until it is known whose it is; True: `sender` has to be asked now."""
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
        """It is the controller's that was asked; the messages that were kept, in their order."""
        question = self._drop_question(session_id)
        if question is None:
            return []
        self._proven[session_id] = question.sender
        return question.messages

    def forget(self, session_id: int) -> None:
        """The connection ended, or nobody could say whose it is: what was kept is lost."""
        self._drop_question(session_id)
        self._proven.pop(session_id, None)

    def _drop_question(self, session_id: int) -> _Question | None:
        question = self._questions.pop(session_id, None)
        if question is not None:
            self._open[question.sender] -= 1
        return question
