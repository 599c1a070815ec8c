import pytest

from epochmq.base import limits
from epochmq.replication import ack_policy
from epochmq.replication.ack_policy import NOTHING, AckStatus, WaitingSends, needed, position
from epochmq.replication.in_sync import InSync
from epochmq.replication.options import ReplicationOptions


def in_sync(acks: dict[int, int], **more: int) -> InSync:
    """A set of master 1 and these followers; `more` are not in it."""
    members = frozenset({1, *acks})
    made = InSync(1, 5, 0, members, 1, 0, 0, ReplicationOptions())
    for number, (follower, ack) in enumerate([*acks.items()], 1):
        made.linked(follower, number, False, 0)
        made.acked(follower, ack, 1000, 0)
    for name, ack in more.items():
        follower = int(name.removeprefix("f"))
        made.linked(follower, follower + 100, False, 0)
        made.acked(follower, ack, 1000, 0)
    return made


@pytest.mark.parametrize(
    ("options", "members", "wanted"),
    [
        (ReplicationOptions(), 3, 1),
        (ReplicationOptions(all_ack=True, in_sync_replicas=2), 3, 3),
        (ReplicationOptions(in_sync_replicas=2), 3, 2),
        (ReplicationOptions(in_sync_replicas=2), 1, 2),
        (ReplicationOptions(in_sync_replicas=3, auto_in_sync_replicas=True), 2, 2),
        (
            ReplicationOptions(
                in_sync_replicas=3, min_in_sync_replicas=2, auto_in_sync_replicas=True
            ),
            1,
            2,
        ),
        (ReplicationOptions(in_sync_replicas=0), 1, 1),
    ],
)
def test_needed(options: ReplicationOptions, members: int, wanted: int) -> None:
    assert needed(options, members) == wanted


def test_all_members_must_have_it() -> None:
    options = ReplicationOptions(all_ack=True)
    assert position(in_sync({2: 500, 3: 300}), 1000, options) == 300
    assert position(in_sync({2: 500, 3: 300}), 200, options) == 200


def test_some_of_the_members_must_have_it() -> None:
    options = ReplicationOptions(in_sync_replicas=2)
    assert position(in_sync({2: 500, 3: 300}), 1000, options) == 500
    assert position(in_sync({2: 500, 3: 300}), 400, options) == 400
    assert position(in_sync({}), 400, options) == NOTHING
    assert position(in_sync({}), 400, ReplicationOptions()) == 400


def test_followers_outside_the_set_do_not_count() -> None:
    options = ReplicationOptions(in_sync_replicas=2)
    assert position(in_sync({2: 100}, f3=900), 1000, options) == 100


def test_below_the_minimum_nothing_is_acknowledged() -> None:
    """Upstream asks for the minimum before the append only."""
    options = ReplicationOptions(all_ack=True, min_in_sync_replicas=2)
    assert position(in_sync({}), 1000, options) == NOTHING


def test_waits_are_released_in_order_up_to_a_position() -> None:
    waits, done = WaitingSends(), []
    for offset in (10, 20, 20, 30):
        waits.add(offset, 1000, lambda status, o=offset: done.append((o, status)))
    waits.release(20)
    assert done == [(10, AckStatus.ACKED), (20, AckStatus.ACKED), (20, AckStatus.ACKED)]
    waits.fail(AckStatus.FENCED)
    assert done[3:] == [(30, AckStatus.FENCED)]
    assert not waits
    assert waits.first_deadline is None


def test_a_wait_for_a_smaller_offset_is_first() -> None:
    waits = WaitingSends()
    assert waits.is_first(99)
    waits.add(20, 1000, lambda _status: None)
    assert [offset for offset in (10, 20, 30) if waits.is_first(offset)] == [10, 20]


def test_waits_end_at_their_deadline() -> None:
    waits, done = WaitingSends(), []
    waits.add(10, 500, done.append)
    waits.add(20, 600, done.append)
    assert waits.first_deadline == 500
    waits.expire(499)
    assert done == []
    waits.expire(500)
    assert done == [AckStatus.TIMEOUT]
    assert (waits.timed_out, len(waits)) == (1, 1)


def test_waits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.ACK_WAITS_MAX >= 100_000
    monkeypatch.setattr(ack_policy, "ACK_WAITS_MAX", 1)
    waits, done = WaitingSends(), []
    waits.add(10, 500, done.append)
    waits.add(20, 500, done.append)
    assert done == [AckStatus.TIMEOUT]
