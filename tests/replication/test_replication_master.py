"""What the dialogues do not show: bounds, garbage, flow, deadlines."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tiers import choose

from epochmq.base.safeguards import SAFE
from epochmq.replication import replication_master as module
from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.frames import Hello, LinkState, decode_transfer, encode_ack, encode_hello
from epochmq.replication.in_sync import InSync
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import AskReplicas, Close, Effects, SendData
from epochmq.replication.replication_master import CLAIM_MS, MasterCore

from .world import FakeLog, epochs, log

OPTIONS = ReplicationOptions(transfer_batch_bytes=300)


def master(held: FakeLog, options: ReplicationOptions = OPTIONS, **switches: bool) -> MasterCore:
    safeguards = replace(SAFE, **switches)
    in_sync = InSync(1, 1, 0, frozenset({1}), 1, 0, 0, options, safeguards)
    return MasterCore(held, epochs((1, 0)), in_sync, options, safeguards)


def follower(core: MasterCore, link: int, number: int, end: int) -> None:
    core.accepted(link, "peer", 0)
    core.received(link, encode_hello(Hello(False, False, number)), 0)
    core.received(link, encode_ack(end), 0)


def chunks(core: MasterCore, link: int, now: int = 0) -> list[tuple[int, int]]:
    """All chunks for a link now; none comes after a chunk that says it is the last one."""
    found = []
    is_last = False
    while (chunk := core.next_chunk(link, now)) is not None:
        assert not is_last
        assert decode_transfer(chunk.head).body_bytes == chunk.size
        found.append((chunk.offset, chunk.size))
        is_last = chunk.is_last
    return found


def test_the_last_chunk_says_so_unless_a_new_epoch_is_to_be_told() -> None:
    held = log(500)
    core = master(held)
    follower(core, 1, 7, 100)
    chunk = core.next_chunk(1, 0)
    assert chunk is not None
    assert not chunk.is_last
    chunk = core.next_chunk(1, 0)
    assert chunk is not None
    assert chunk.is_last
    assert core.next_chunk(1, 0) is None
    in_sync = InSync(1, 2, 500, frozenset({1}), 1, 0, 0, OPTIONS, SAFE)
    core = MasterCore(held, epochs((1, 0), (2, 500)), in_sync, OPTIONS, SAFE)
    follower(core, 1, 7, 400)
    assert chunks(core, 1) == [(400, 100), (500, 0)]


def test_chunks_follow_each_other_and_end_with_files_and_batches() -> None:
    core = master(log(2500))
    follower(core, 1, 7, 900)
    assert chunks(core, 1) == [
        (900, 100),
        *((1000 + 300 * n, 300) for n in range(3)),
        (1900, 100),
        (2000, 300),
        (2300, 200),
    ]


def test_only_what_was_announced_is_sent() -> None:
    """A transient pool's bytes are no file yet: the node commits them, then says `appended`."""
    held = log(500)
    core = master(held)
    follower(core, 1, 7, 500)
    held.end = held.safe = 600
    assert chunks(core, 1) == []
    core.appended(0)
    assert chunks(core, 1) == [(500, 100)]


def test_flow_control_holds_all_links_together() -> None:
    core = master(log(900), replace(OPTIONS, flow_control=True, flow_bytes_per_second=350))
    follower(core, 1, 7, 100)
    follower(core, 2, 8, 100)
    assert chunks(core, 1, 5000) == [(100, 300), (400, 50)]
    assert chunks(core, 2, 5000) == []
    core.tick(5000)
    assert core.next_deadline(5001) <= 6000
    assert chunks(core, 2, 6000) == [(100, 300), (400, 50)]


def test_links_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HA_LINKS_MAX", 2)
    core = master(log(0))
    assert core.accepted(1, "a", 0) == core.accepted(2, "b", 0) == []
    assert isinstance(core.accepted(3, "c", 0)[0], Close)
    assert core.received(3, b"x", 0) == []
    assert core.next_chunk(3, 0) is None
    assert core.closed(3, 0) == []


def test_an_unbounded_ack_is_believed_without_the_safeguard() -> None:
    core = master(log(100), bounded_ack=False)
    follower(core, 1, 7, 100)
    core.received(1, encode_ack(10_000), 0)
    assert core.links[1].ack == 10_000
    assert core.bad_acks == 0


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_garbage_costs_the_link_and_nothing_else(pieces: list[bytes]) -> None:
    core = master(log(100))
    follower(core, 1, 7, 100)
    core.accepted(2, "stranger", 0)
    for piece in pieces:
        for effect in core.received(2, piece, 0):
            assert isinstance(effect, Close | SendData)
            assert effect.link == 2 or core.links.get(2) is not None
    link = core.links.get(2)
    assert link is None or len(link.inbox) < 62
    assert core.bad_acks <= 1


@given(st.data())
def test_frames_of_a_follower_may_be_cut_anywhere(data: st.DataObject) -> None:
    stream = encode_hello(Hello(True, False, 7)) + encode_ack(20) + encode_ack(60)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    core = master(log(100))
    core.accepted(1, "peer", 0)
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        core.received(1, stream[start:stop], 0)
    link = core.links[1]
    assert (link.state, link.ack, link.next) == (LinkState.TRANSFER, 60, 20)


def test_the_next_deadline_is_never_late() -> None:
    core = master(log(100))
    assert core.next_deadline(0) == OPTIONS.heartbeat_ms
    follower(core, 1, 7, 50)
    core.when_acked(200, 700, lambda _status: None)
    assert core.next_deadline(0) <= 700
    assert core.statistics()["waiting"] == 1


# Past the lease (ADR 0044) ------------------------------------------------------------------------

ALL = replace(OPTIONS, all_ack=True, min_in_sync_replicas=2)


def pair(options: ReplicationOptions = ALL, **switches: bool) -> tuple[FakeLog, MasterCore]:
    """Master 1 and follower 2 on link 1, both with 500 bytes, both in the set."""
    held, safeguards = log(500), replace(SAFE, **switches)
    in_sync = InSync(1, 1, 0, frozenset({1, 2}), 1, 0, 0, options, safeguards)
    core = MasterCore(held, epochs((1, 0)), in_sync, options, safeguards)
    follower(core, 1, 2, 500)
    return held, core


@given(
    st.sets(st.sampled_from([2, 3])),
    st.builds(
        ReplicationOptions,
        all_ack=st.booleans(),
        in_sync_replicas=st.integers(1, 3),
        auto_in_sync_replicas=st.booleans(),
    ),
    st.lists(st.tuples(st.sampled_from(["append", "sync", "ack"]), st.integers(0, 300))),
)
@example(set(), ReplicationOptions(in_sync_replicas=2), [("append", 1)])
@example({2}, ReplicationOptions(in_sync_replicas=1), [("append", 2), ("append", 1)])
@example({2}, ReplicationOptions(in_sync_replicas=2), [("append", 2), ("ack", 2), ("append", 1)])
@settings(max_examples=choose(sample=100, soak=20_000))
def test_an_append_alone_acknowledges_what_a_closer_look_does(
    others: set[int], options: ReplicationOptions, steps: list[tuple[str, int]]
) -> None:
    """`appended` does not compute what cannot have changed; `moved` computes everything."""
    held = log(500)
    in_sync = InSync(1, 1, 0, frozenset({1, *others}), 1, 0, 0, options, SAFE)
    core = MasterCore(held, epochs((1, 0)), in_sync, options, SAFE)
    for number in others:
        follower(core, number, number, 500)
    acked: list[int] = []
    for at, (step, number) in enumerate(steps):
        if step == "append":
            held.end += number
            if number % 2:  # with asynchronous flush
                held.safe = held.end
            core.when_acked(held.end, 1 << 62, partial(lambda end, _: acked.append(end), held.end))
            core.appended(at)
            before = list(acked), in_sync.confirmed
            core.moved(at)
            assert (acked, in_sync.confirmed) == before
        elif step == "sync":
            held.safe = min(held.end, held.safe + number)
            core.moved(at)
        elif others:
            link = sorted(others)[number % len(others)]
            ack = min(in_sync.replicas[link].ack + number, held.end)
            core.received(link, encode_ack(ack), at)


def test_a_set_is_whole_while_each_member_is_heard() -> None:
    _, core = pair()
    assert core.is_whole(100, 100)
    assert not core.is_whole(101, 100)
    core.received(1, encode_ack(500), 90)
    assert core.is_whole(101, 100)
    core.closed(1, 102)
    assert not core.is_whole(102, 100)


def test_a_member_that_connected_again_has_said_nothing_yet() -> None:
    _, core = pair()
    core.accepted(2, "peer", 150)
    core.received(2, encode_hello(Hello(False, False, 2)), 150)
    core.tick(150 + CLAIM_MS)
    assert 1 not in core.links
    assert not core.is_whole(150 + CLAIM_MS, 10 * CLAIM_MS)


@pytest.mark.parametrize("number", [2, 3])
def test_a_stranger_with_a_members_number_gets_nothing_acknowledged(number: int) -> None:
    """Whoever reaches the port can call itself by any number."""
    held, core = pair()
    follower(core, 2, 3, 500)
    held.end = held.safe = 600
    core.appended(200)
    core.accepted(9, "stranger", 200)
    core.received(9, encode_hello(Hello(False, False, number)), 200)
    effects = core.received(9, encode_ack(600), 200)
    assert [e.link for e in effects if isinstance(e, Close)] == [9]
    core.received(1 if number == 2 else 2, encode_ack(500), 210)
    assert core.in_sync.replicas[number].ack == 500


def test_followers_without_numbers_are_forgotten_with_their_links() -> None:
    core = master(log(0))
    for number in range(1, 300):
        core.accepted(number, "peer", 0)
        core.received(number, encode_hello(Hello(False, False, None, f"10.0.0.{number}:1")), 0)
        core.closed(number, 0)
    assert core._strangers == {}
    assert core.in_sync.replicas.keys() == {1}


@pytest.mark.parametrize(
    "change",
    [{"all_ack": False, "in_sync_replicas": 2}, {"min_in_sync_replicas": 3}],
    ids=["fewer than all acknowledge", "below the minimum"],
)
def test_a_set_that_may_not_go_on_is_not_whole(change: dict[str, int]) -> None:
    _, core = pair(replace(ALL, **change))  # type: ignore[arg-type]
    assert not core.is_whole(0, 100)


def test_a_set_of_one_is_never_whole() -> None:
    assert not master(log(0), replace(ALL, min_in_sync_replicas=1)).is_whole(0, 100)


def test_a_proposed_follower_counts_until_the_answer_is_known() -> None:
    _, core = pair()
    follower(core, 2, 3, 500)
    core.tick(1)
    assert core.in_sync.effective == {1, 2, 3}
    assert core.is_whole(1, 100)
    core.closed(2, 2)
    assert not core.is_whole(2, 100)


def test_past_the_lease_the_set_stays_as_it_is() -> None:
    _, core = pair()
    core.past_lease = True
    follower(core, 2, 3, 500)
    core.tick(1)
    assert core.in_sync.effective == {1, 2}
    core.past_lease = False
    core.tick(2)
    assert core.in_sync.effective == {1, 2, 3}


def test_members_are_asked_whether_they_are_there_before_the_lease_ends() -> None:
    _, core = pair()
    core.tick(200)
    assert core.tick(299) == []
    core.ping_ms = 100
    assert core.next_deadline(299) <= 300
    assert [type(effect) for effect in core.tick(300)] == [SendData]


def test_without_the_safeguard_unreachable_followers_are_not_asked() -> None:
    held, core = pair(whole_set_past_lease=False)
    core.past_lease = True
    core.closed(1, 1)
    assert core.is_whole(1, 100)
    held.end = held.safe = 600
    core.appended(2)
    done: list[AckStatus] = []
    core.when_acked(600, 1000, done.append)
    assert done == [AckStatus.ACKED]


# Ids that are not registered ------------------------------------------------------------------


def guarded(*registered: int, members: tuple[int, ...] = (1, 2)) -> MasterCore:
    """A master whose log ends at 500, and which knows these ids besides its set."""
    in_sync = InSync(1, 1, 0, frozenset(members), 1, 0, 0, OPTIONS, SAFE)
    return MasterCore(log(500), epochs((1, 0)), in_sync, OPTIONS, SAFE, frozenset(registered))


def call(core: MasterCore, link: int, number: int) -> Effects:
    assert core.accepted(link, "peer", 0) == []
    return core.received(link, encode_hello(Hello(False, False, number)), 0)


def test_an_unknown_id_gets_no_answer_and_no_log_until_the_controllers_were_asked() -> None:
    core = guarded(3)
    assert call(core, 5, 9) == [AskReplicas()]
    assert call(core, 6, 8) == []
    core.appended(1)
    core.tick(2)
    assert core.next_chunk(5, 2) is None
    assert 9 not in core.in_sync.replicas
    effects = core.replicas_told(frozenset({1, 2, 3}), 3)
    assert effects == [
        AskReplicas(),
        Close(5, "follower 9 is not registered with the controllers"),
    ]
    (refused,) = core.replicas_told(frozenset({1, 2, 3}), 4)
    assert isinstance(refused, Close)
    assert core.links == {}


def test_what_an_unknown_id_acknowledges_ends_its_link() -> None:
    core = guarded()
    call(core, 5, 9)
    (closed,) = core.received(5, encode_ack(500), 1)
    assert isinstance(closed, Close)
    assert core.in_sync.confirmed == 0
    assert core.replicas_told(frozenset({1, 2, 9}), 2) == []


@pytest.mark.parametrize("number", [2, 3])
def test_members_and_registered_ids_shake_hands_at_once(number: int) -> None:
    core = guarded(3)
    (reply,) = call(core, 5, number)
    assert isinstance(reply, SendData)


def test_a_replica_that_has_just_registered_is_let_in_by_the_answer() -> None:
    core = guarded()
    assert call(core, 5, 4) == [AskReplicas()]
    (reply,) = core.replicas_told(frozenset({1, 2, 4}), 1)
    assert isinstance(reply, SendData)
    core.received(5, encode_ack(100), 2)
    assert chunks(core, 5)[0][0] == 100
    core.closed(5, 3)
    (reply,) = call(core, 6, 4)
    assert isinstance(reply, SendData), "it is known from now on"


def test_two_links_of_one_id_that_wait_are_one_replicas() -> None:
    core = guarded()
    call(core, 5, 4)
    call(core, 6, 4)
    (asked, reply) = core.replicas_told(frozenset({4}), 1)
    assert (asked, isinstance(reply, SendData)) == (AskReplicas(), True)
    (closed,) = core.replicas_told(frozenset({4}), 2)
    assert isinstance(closed, Close)
    assert closed.link == 6


def test_a_member_that_the_set_brings_is_known() -> None:
    core = guarded()
    core.set_committed(frozenset({1, 2, 7}), 2, 0)
    (reply,) = call(core, 5, 7)
    assert isinstance(reply, SendData)
