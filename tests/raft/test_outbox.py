"""What a message waits for."""

from dataclasses import replace

from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.raft.outbox import Outbox, Ready
from epochmq.raft.raft_messages import AnyMessage, AppendEntries, AppendReply, Heartbeat, VoteReply

VOTE = VoteReply("a", "b", 1, True)
ACK = AppendReply("a", "b", 1, 5)
REFUSAL = AppendReply("a", "b", 1, 5, refused=True)
APPEND = AppendEntries("a", "b", 1, 0, 0, 0)
BEAT = Heartbeat("a", "b", 1, 0, 1, 1)


def batch(*messages: AnyMessage) -> Ready:
    return Ready(None, (), None, messages, (), (), False)


def outbox_with(*messages: AnyMessage, safe: Safeguards = SAFE) -> Outbox:
    """A promise in batch 1, entries in batch 2; batch 3 has messages."""
    outbox = Outbox(safe)
    outbox.put(batch(), 1, 1, promised=True)
    outbox.put(batch(), 2, 2, promised=False)
    outbox.put(batch(*messages), 3, 2, promised=False)
    return outbox


def test_all_wait_for_the_promise_and_acks_for_the_entries() -> None:
    outbox = outbox_with(VOTE, ACK, REFUSAL, APPEND, BEAT)
    assert outbox.pop_ready(0) == []
    assert outbox.pop_ready(1) == [VOTE, REFUSAL, APPEND, BEAT]
    assert outbox.pop_ready(1) == []
    assert outbox.pop_ready(2) == [ACK]


def test_a_leaders_appends_do_not_wait_for_its_own_entries() -> None:
    outbox = Outbox(SAFE)
    outbox.put(batch(APPEND), 1, 1, promised=False)
    assert outbox.pop_ready(0) == [APPEND]


def test_switches() -> None:
    vote = replace(SAFE, sync_before_vote=False)
    assert outbox_with(VOTE, ACK, safe=vote).pop_ready(0) == [VOTE]
    ack = replace(SAFE, sync_before_append_ack=False)
    assert outbox_with(VOTE, ACK, safe=ack).pop_ready(0) == [ACK]
    nothing = replace(SAFE, persist_before_reply=False)
    assert outbox_with(VOTE, ACK, safe=nothing).pop_ready(0) == [VOTE, ACK]
