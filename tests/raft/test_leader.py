"""What a leader has: deadlines, shared rounds of reads, the lease, the hand-over."""

from epochmq.raft.leader import Leader
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_log import RaftLog
from epochmq.raft.raft_messages import (
    AnyMessage,
    AppendReply,
    EntryKind,
    Heartbeat,
    HeartbeatReply,
    LogEntry,
    Snapshot,
    TimeoutNow,
    VotersAndLearners,
)

THREE = VotersAndLearners(("n0", "n1", "n2"))


class Led:
    """n0 leads term 1 from time 0; its no-op is entry 1."""

    def __init__(self) -> None:
        self.log = RaftLog(Snapshot(0, 0, THREE))
        self.sent: list[AnyMessage] = []
        self.leader = Leader("n0", 1, self.log, RaftOptions(), self.sent.append, 0)
        self.leader.replication.follow(THREE, 0)
        self.append()

    def append(self) -> None:
        self.log.append([LogEntry(1, self.log.last_index + 1, EntryKind.NO_OP)])

    def beats(self) -> list[int]:
        found = [m.round for m in self.sent if isinstance(m, Heartbeat) and m.to == "n1"]
        self.sent.clear()
        return found

    def answer(self, sender: str, now: int) -> None:
        replication = self.leader.replication
        reply = HeartbeatReply(sender, "n0", 1, replication.round, now)
        replication.on_heartbeat_reply(reply, now)


def test_deadlines() -> None:
    led = Led()
    assert led.leader.next_deadline(0, check_quorum=True) == 0
    led.leader.tick(0)
    assert led.leader.next_deadline(0, check_quorum=True) == 100
    led.leader.heartbeat(990)
    assert led.leader.next_deadline(990, check_quorum=True) == 1000
    assert led.leader.next_deadline(990, check_quorum=False) == 1090
    assert not led.leader.is_deserted(999)
    assert led.leader.is_deserted(1000)
    led.answer("n1", 999)
    assert not led.leader.is_deserted(1998)


def test_reads_share_rounds() -> None:
    led = Led()
    led.leader.read(b"early", 0)
    assert led.beats() == [], "before the no-op nothing is known"
    led.log.commit_to(1)
    led.leader.committed(0)
    assert led.beats() == [1]
    led.leader.read(b"b", 0)
    led.leader.read(b"c", 0)
    assert led.beats() == []
    led.answer("n1", 0)
    assert [r.context for r in led.leader.confirmed_reads(0)] == [b"early"]
    assert led.beats() == [2]
    led.answer("n2", 0)
    assert [r.context for r in led.leader.confirmed_reads(0)] == [b"b", b"c"]
    assert led.leader.confirmed_reads(0) == []


def test_the_lease_ends_with_the_hand_over() -> None:
    led = Led()
    led.leader.tick(50)
    led.answer("n1", 60)
    assert led.leader.lease_until_ms(60) == 0, "not before the no-op is committed"
    led.log.commit_to(1)
    assert led.leader.lease_until_ms(60) == 60 + 800
    led.leader.transfer_to("n1", 70)
    assert led.leader.lease_until_ms(70) == 860, "n1 lacks the no-op, nothing was said yet"
    led.leader.replication.on_append_reply(AppendReply("n1", "n0", 1, 1), 80)
    led.leader.maybe_hand_over(80)
    assert led.sent[-1] == TimeoutNow("n0", "n1", 1)
    assert led.leader.lease_until_ms(80) == 0
    led.leader.tick(1070)
    assert led.leader.transferee is None
    assert led.leader.lease_until_ms(1070) == 0, "n1 may still act on what it was told"


def test_a_transfer_to_a_removed_member_is_dropped() -> None:
    led = Led()
    led.leader.transfer_to("n1", 0)
    led.leader.replication.follow(VotersAndLearners(("n0", "n2")), 0)
    led.sent.clear()
    led.leader.maybe_hand_over(0)
    assert led.sent == []
    assert led.leader.matches() == {"n2": 0}


def test_after_the_clock_stood_still_only_a_heartbeat_from_then_on_gives_a_lease() -> None:
    """An answer to one of before may be of any time since."""
    led = Led()
    led.log.commit_to(1)
    led.leader.tick(50)
    led.answer("n1", 60)
    led.leader.heartbeat(150)
    assert led.leader.lease_until_ms(151) == 860
    led.beats()
    led.leader.drop_lease(151)
    assert led.beats() == [3], "a new round at once"
    assert led.leader.lease_until_ms(151) == 0
    replication = led.leader.replication
    replication.on_heartbeat_reply(HeartbeatReply("n2", "n0", 1, 2, 150), 152)
    assert led.leader.lease_until_ms(152) == 0, "n2 answers the round of before"
    assert replication.confirmed_round() == 2, "for reads that asked then it counts"
    replication.on_heartbeat_reply(HeartbeatReply("n2", "n0", 1, 3, 151), 153)
    assert led.leader.lease_until_ms(153) == 151 + 800
