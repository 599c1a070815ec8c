"""Which incoming connections are controllers'."""

from epochmq.base import limits
from epochmq.controller.server.raft_sessions import RaftSessions


def test_messages_wait_until_their_sender_is_proven() -> None:
    sessions = RaftSessions()
    assert sessions.sender_of(1) is None
    assert sessions.hold(1, "n1", b"a")
    assert not sessions.hold(1, "n1", b"b"), "it is being asked already"
    assert not sessions.hold(1, "n2", b"c"), "one connection has one sender"
    assert sessions.prove(1) == [b"a", b"b"]
    assert sessions.sender_of(1) == "n1"
    sessions.forget(1)
    assert sessions.sender_of(1) is None
    assert sessions.prove(1) == []


def test_what_waits_is_bounded() -> None:
    sessions = RaftSessions()
    for _ in range(limits.RAFT_UNPROVEN_MESSAGES_MAX + 9):
        sessions.hold(1, "n1", b"a")
    assert len(sessions.prove(1)) == limits.RAFT_UNPROVEN_MESSAGES_MAX
    sessions.hold(2, "n1", bytes(limits.RAFT_UNPROVEN_BYTES_MAX))
    sessions.hold(2, "n1", b"a")
    assert len(sessions.prove(2)) == 1


def test_so_many_connections_are_in_question_at_a_time() -> None:
    sessions = RaftSessions()
    asked = [sessions.hold(number, "n1", b"a") for number in range(20)]
    assert asked.count(True) == limits.RAFT_QUESTIONS_MAX
    assert sessions.hold(20, "n2", b"a"), "another controller's are counted on their own"
    sessions.forget(0)
    assert sessions.hold(21, "n1", b"a")
