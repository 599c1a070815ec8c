"""What goes to whom, and what a majority has."""

from epochmq.raft.follower_progress import AppendPace
from epochmq.raft.options import RaftOptions
from epochmq.raft.raft_log import RaftLog
from epochmq.raft.raft_messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    EntryKind,
    Heartbeat,
    HeartbeatReply,
    Install,
    LogEntry,
    Snapshot,
    VotersAndLearners,
)
from epochmq.raft.replication import Followers

FIVE = VotersAndLearners(("n0", "n1", "n2", "n3", "n4"), ("x",))


class Leading:
    """n0 leads term 2 with entries 11..`last` after a snapshot at 10."""

    def __init__(self, last: int = 20, members: VotersAndLearners = FIVE, **options: int) -> None:
        entries = [LogEntry(2, i, EntryKind.DATA, bytes(10)) for i in range(11, last + 1)]
        self.log = RaftLog(Snapshot(10, 1, members, b"s"), entries)
        self.sent: list[AnyMessage] = []
        self.replication = Followers("n0", 2, self.log, RaftOptions(**options), self.sent.append)
        self.replication.follow(members, 0)

    def take(self) -> list[AnyMessage]:
        sent, self.sent[:] = list(self.sent), []
        return sent

    def accept(self, node: str, index: int) -> bool:
        return self.replication.on_append_reply(AppendReply(node, "n0", 2, index), 5)

    def refuse(self, node: str, index: int, hint: int, term: int) -> None:
        reply = AppendReply(node, "n0", 2, index, True, hint, term)
        self.replication.on_append_reply(reply, 5)


def test_the_match_of_a_majority_of_voters() -> None:
    leading = Leading()
    assert leading.accept("n1", 15)
    assert not leading.accept("n1", 15)
    leading.accept("x", 20)
    assert leading.replication.matched(20) == 0, "a learner does not count"
    leading.accept("n2", 13)
    assert leading.replication.matched(20) == 13
    assert leading.replication.matched(12) == 12, "the own disk counts as any other"


def test_a_follower_behind_the_snapshot_gets_it_and_again_if_it_is_lost() -> None:
    """dledger#275."""
    leading = Leading(snapshot_resend_ms=1000)
    leading.refuse("n1", 20, 3, 1)
    sent = leading.take()
    assert [type(m) for m in sent] == [Install]
    progress = leading.replication.followers["n1"]
    assert progress.pace is AppendPace.SNAPSHOT
    leading.replication.heartbeat(900)
    leading.replication.on_heartbeat_reply(HeartbeatReply("n1", "n0", 2, 1, 900), 900)
    assert not any(isinstance(m, Install) for m in leading.take())
    leading.replication.heartbeat(2000)
    leading.replication.on_heartbeat_reply(HeartbeatReply("n1", "n0", 2, 2, 2000), 2000)
    assert any(isinstance(m, Install) for m in leading.take())
    leading.accept("n1", 10)
    assert [m.prev_index for m in leading.take() if isinstance(m, AppendEntries)] == [10]


def test_small_appends_go_one_after_the_other_within_the_window() -> None:
    leading = Leading(append_bytes_max=1, in_flight_max=3)
    leading.accept("n1", 11)
    assert [m.prev_index for m in leading.take() if isinstance(m, AppendEntries)] == [11, 12, 13]
    leading.accept("n1", 12)
    assert [m.prev_index for m in leading.take() if isinstance(m, AppendEntries)] == [14]


def test_answers_in_another_order_begin_one_stream_and_not_one_each() -> None:
    leading = Leading(append_bytes_max=1, in_flight_max=9)
    leading.accept("n1", 13)
    assert len(leading.take()) == 7
    leading.refuse("n1", 17, 13, 2)  # that append overtook others
    for index in (12, 11, 12):  # sent before, and answered late
        leading.accept("n1", index)
    assert [m.prev_index for m in leading.take() if isinstance(m, AppendEntries)] == [13]
    leading.accept("n1", 14)
    assert [m.prev_index for m in leading.take() if isinstance(m, AppendEntries)] == [
        *range(14, 20)
    ]


def test_a_heartbeat_never_commits_what_the_follower_may_lack() -> None:
    leading = Leading()
    leading.log.commit_to(20)
    leading.accept("n1", 15)
    leading.take()
    leading.replication.heartbeat(7)
    commits = {m.to: m.commit for m in leading.take() if isinstance(m, Heartbeat)}
    assert commits == {"n1": 15, "n2": 0, "n3": 0, "n4": 0, "x": 0}


def test_rounds_and_their_times() -> None:
    leading = Leading()
    replication = leading.replication
    assert replication.round_sent_at(5) is None
    replication.heartbeat(100)
    for node in ("n1", "n2"):
        replication.on_heartbeat_reply(HeartbeatReply(node, "n0", 2, 1, 100), 130)
    assert replication.confirmed_round() == 1
    assert replication.round_sent_at(130) == 100
    assert replication.heard_at(140) == 130
    replication.on_heartbeat_reply(HeartbeatReply("n3", "n0", 2, 99, 1 << 50), 140)
    assert replication.followers["n3"].round == 0, "no such round was sent"


def test_strangers_are_not_heard() -> None:
    leading = Leading()
    assert not leading.accept("stranger", 20)
    leading.replication.on_heartbeat_reply(HeartbeatReply("stranger", "n0", 2, 1, 1), 1)
    assert "stranger" not in leading.replication.followers


def test_newcomers_are_probed_and_the_rest_stay_as_they_are() -> None:
    leading = Leading()
    leading.accept("n1", 15)
    leading.replication.follow(VotersAndLearners(("n0", "n1", "n9")), 50)
    assert sorted(leading.replication.followers) == ["n1", "n9"]
    assert leading.replication.followers["n1"].match == 15
    assert leading.replication.followers["n9"].pace is AppendPace.PROBE
