"""Real stores behind the cores: the truncation cases of RIP-44 (seed 002), roles, crashes."""

from dataclasses import replace
from random import Random

import pytest
from sim.kernel.disk import PLENTY

from epochmq.base.safeguards import SAFE
from epochmq.replication.ack_policy import AckStatus
from epochmq.replication.frames import LinkState
from epochmq.store.epochs import StaleEpoch

from .pair import ALL_ACK, SYNC, Broker, Cable, group, replicate


def ends(placed: list) -> list[int]:  # type: ignore[type-arg]
    return [place.offset + place.size for place in placed]


def agree(*brokers: Broker) -> None:
    """The same bytes, the same epochs as far as they have any."""
    first = brokers[0]
    for other in brokers[1:]:
        assert other.bytes() == first.bytes()
        assert other.epochs == first.epochs
        assert other.store.verify().problems == []


# The six cases -----------------------------------------------------------------------------------


def test_case_1_the_old_master_had_more() -> None:
    a, b = group(2)
    a.lead(0, 1, 2)
    marks = ends(a.write(10))
    replicate(a, b, 0, upto=marks[8])
    assert (a.end, b.end) == (marks[9], marks[8])
    assert a.confirmed <= marks[8]
    b.lead(1, 1, 2)
    b.write(2)
    replicate(b, a, 1)
    assert a.epochs == [(0, 0), (1, marks[8])]
    agree(b, a)


def test_case_2_the_old_master_lost_its_tail_with_the_power() -> None:
    a, b = group(2)
    a.lead(0, 1, 2)
    marks = ends(a.write(9))
    a.store.sync()
    a.write(1)
    replicate(a, b, 0)
    whole = a.end
    a.cut_power(seed=3)
    assert a.end < whole
    b.lead(1, 1, 2)
    b.write(1)
    replicate(b, a, 1)
    assert marks[8] <= whole
    agree(b, a)


def test_case_3_a_follower_that_is_only_behind_is_not_truncated() -> None:
    a, b = group(2)
    a.lead(0, 1, 2)
    start = ends(a.write(9))[-1]
    cable = replicate(a, b, 0)
    cable.cut()
    b.lead(1, 1, 2)
    marks = ends(b.write(6))
    replicate(b, a, 1, upto=marks[2])
    assert a.end == marks[2]
    before = a.bytes()
    replicate(b, a, 1)
    assert a.bytes()[: len(before)] == before
    assert a.epochs == [(0, 0), (1, start)]
    agree(b, a)


def test_case_4_a_whole_epoch_goes() -> None:
    a, b, c = group(3)
    a.lead(0, 1, 2, 3)
    marks = ends(a.write(10))
    replicate(a, b, 0, upto=marks[8])
    replicate(a, c, 0)
    b.lead(1, 1, 2, 3)
    b.write(1)
    assert b.epochs == [(0, 0), (1, marks[8])]
    c.lead(2, 1, 2, 3)
    c.write(1)
    replicate(c, b, 2)
    assert b.epochs == [(0, 0), (2, marks[9])]
    agree(c, b)


def test_case_5_two_followers_had_more_of_the_last_epoch() -> None:
    a, b, c = group(3)
    a.lead(0, 1, 2, 3)
    a.write(5)
    for follower in (b, c):
        replicate(a, follower, 0)
    b.lead(1, 1, 2, 3)
    marks = ends(b.write(5))
    replicate(b, a, 1, upto=marks[2])
    replicate(b, c, 1, upto=marks[3])
    a.lead(2, 1, 2, 3)
    a.write(3)
    for follower in (b, c):
        replicate(a, follower, 2)
        assert follower.epochs[-1] == (2, marks[2])
    agree(a, b, c)


def test_case_6_an_epoch_that_nobody_else_saw_goes() -> None:
    a, b, c = group(3)
    a.lead(0, 1, 2, 3)
    a.write(10)
    for follower in (b, c):
        replicate(a, follower, 0)
    end = a.end
    b.lead(1, 1, 2, 3)
    b.write(3)
    c.lead(2, 1, 2, 3)
    c.write(2)
    replicate(c, b, 2)
    assert b.epochs == [(0, 0), (2, end)]
    agree(c, b)


# Sending and acknowledging -----------------------------------------------------------------------


def test_a_follower_from_nothing_joins_and_acknowledges() -> None:
    a, b = group(2)
    a.lead(1)
    a.write(30)
    cable = replicate(a, b, 1)
    assert [p.members for p in a.proposals] == [frozenset({1, 2})]
    a.node.set_committed(frozenset({1, 2}), 2, a.now)
    told: list[AckStatus] = []
    a.write(5)
    a.node.when_acked(a.end, a.now + 3000, told.append, a.now)
    assert told == []
    cable.run()
    assert told == [AckStatus.ACKED]
    assert a.confirmed == a.end
    a.now += 10
    a.node.tick(a.now)
    cable.run()
    assert b.confirmed == b.end
    agree(a, b)


def test_a_message_is_read_when_all_members_have_it() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(1)
    assert a.store.pointers.readable == 0
    replicate(a, b, 1)
    assert a.store.pointers.readable == a.end


def test_with_sync_flush_an_acknowledgement_means_on_both_devices() -> None:
    options = replace(ALL_ACK, sync_before_ack=True)
    a, b = (Broker(number, options, SYNC) for number in (1, 2))
    a.lead(1, 1, 2)
    told: list[AckStatus] = []
    a.write(3)
    a.node.when_acked(a.end, a.now + 3000, told.append, a.now)
    cable = replicate(a, b, 1)
    assert b.end == a.end
    assert told == []
    b.store.sync()
    cable.run()
    assert told == []
    a.store.sync()
    assert told == [AckStatus.ACKED]
    a.cut_power()
    b.cut_power()
    assert a.end == b.end == a.store.pointers.appended > 0


@pytest.mark.parametrize("seed", range(12))
def test_with_sync_flush_no_power_cut_of_all_loses_what_was_acknowledged(seed: int) -> None:
    """The promise page: "power cut of all", allAck, sync flush: 0 lost."""
    rng = Random(seed)
    options = replace(ALL_ACK, sync_before_ack=True)
    brokers = a, b = [Broker(number, options, SYNC) for number in (1, 2)]
    a.lead(1, 1, 2)
    acked = [0]
    cable = replicate(a, b, 1)
    for _ in range(30):
        step = rng.randrange(4)
        if step == 0:
            a.write(rng.randint(1, 4))
            end = a.end
            a.node.when_acked(end, a.now + 3000, lambda status, end=end: acked.append(end), a.now)
        elif step == 1:
            cable.run()
        else:
            brokers[step - 2].store.sync()
    ends = []
    for broker in brokers:
        broker.cut_power(seed)
        ends.append(broker.end)
    assert acked[-1] <= min(ends)
    b.lead(2, 1, 2)
    replicate(b, a, 2)
    agree(b, a)


def test_an_empty_follower_begins_at_the_masters_first_file() -> None:
    a, b = group(2)
    b.options = replace(ALL_ACK, from_last_file=True)
    b.kill()
    a.lead(1)
    a.write(60)
    assert a.end > 2 * a.store.file_bytes
    replicate(a, b, 1)
    assert b.store.pointers.start == a.end - a.end % a.store.file_bytes
    assert b.bytes() == a.bytes()[b.store.pointers.start :]


def test_new_epochs_go_along_a_standing_group() -> None:
    """S06, S07: epochs without a byte are kept by all, and followers of either find their place."""
    a, b = group(2)
    a.lead(1, 1, 2)
    replicate(a, b, 1)
    b.lead(2, 1, 2)
    replicate(b, a, 2)
    a.lead(3, 1, 2)
    a.write(2)
    replicate(a, b, 3)
    assert a.epochs == [(1, 0), (2, 0), (3, 0)]
    agree(a, b)


# What must not happen ----------------------------------------------------------------------------


def test_no_master_of_an_epoch_that_is_over() -> None:
    a, b = group(2)
    a.lead(3, 1, 2)
    a.write(1)
    replicate(a, b, 3)
    for broker in (a, b):
        with pytest.raises(StaleEpoch):
            broker.lead(2, 1, 2)
    with pytest.raises(StaleEpoch):
        b.follow(2)
    assert a.node.master is not None


def test_a_deposed_master_has_no_followers() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(1)
    cable = replicate(a, b, 5)
    assert not cable.up
    assert b.end == 0


def test_what_was_confirmed_here_is_not_taken_back() -> None:
    """INV-15; after an unclean election it is, and what was cut is kept."""
    a, b, c = group(3)
    a.lead(1, 1, 2)
    a.write(10)
    replicate(a, b, 1)
    replicate(a, c, 1, upto=a.store.file_bytes // 2)
    assert a.confirmed == a.end
    a.node.tick(a.now + 10)
    c.lead(2, 3)  # an unclean election
    c.write(1)
    before = a.bytes()
    cable = replicate(c, a, 2)
    assert not cable.up
    assert a.bytes() == before
    assert a.node.follower is not None
    assert a.node.follower.state is LinkState.SUSPEND
    assert "confirmed" in a.troubles[-1]
    assert c.proposals == []
    for other in (1, 3):  # before this log's last epoch, or not the one it is to follow
        assert not replicate(c, a, 2, unclean_epoch=other).up
    assert a.bytes() == before
    replicate(c, a, 2, unclean_epoch=2)
    agree(c, a)
    kept = b"".join(a.disk.read_file(f"cut/{name}") or b"" for name in sorted(a.disk.list("cut")))
    assert before.endswith(kept)
    assert len(kept) == a.store.statistics()["truncated_confirmed_bytes"] > 0


def test_what_was_confirmed_is_not_cut_while_it_cannot_be_kept() -> None:
    a, b, c = group(3)
    a.lead(1, 1, 2)
    a.write(10)
    replicate(a, b, 1)
    replicate(a, c, 1, upto=a.store.file_bytes // 2)
    a.node.tick(a.now + 10)
    c.lead(2, 3)
    before = a.bytes()
    a.disk.quota_bytes = 0
    assert not replicate(c, a, 2, unclean_epoch=2).up
    assert a.bytes() == before
    a.disk.quota_bytes = PLENTY
    replicate(c, a, 2, unclean_epoch=2)
    agree(c, a)


def test_a_follower_that_lost_its_epochs_does_not_join() -> None:
    a, b = group(2)
    a.lead(1)
    a.write(5)
    replicate(a, b, 1).cut()
    b.disk.remove("epochFileCheckpoint")
    b.disk.remove("epochFileCheckpoint.bak")
    b.kill()
    a.write(5)
    a.proposals.clear()
    cable = replicate(a, b, 1)
    assert not cable.up
    assert a.proposals == []
    replicate(a, b, 1, unclean_epoch=1)
    agree(a, b)
    assert b.disk.list("cut")


def test_damaged_bytes_do_not_spread() -> None:
    """S11: the link is cut, the log ends before them, and another link brings them whole."""
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(10)
    b.follow(1)
    cable = Cable(a, b)
    cable.carry_effects()
    cable.carry_effects()
    chunk = a.node.next_chunk(cable.link, a.now)
    assert chunk is not None
    body = bytearray(a.store.slice(chunk.offset, chunk.size))
    body[150] ^= 1
    b.node.received(chunk.head + bytes(body), b.now)
    cable.carry_effects()
    assert not cable.up
    assert "bad record" in b.troubles[-1]
    replicate(a, b, 1)
    agree(a, b)


# Fences, processes, upgrades ---------------------------------------------------------------------


def test_without_a_role_nothing_is_acknowledged() -> None:
    (a,) = group(1)
    told: list[AckStatus] = []
    a.node.when_acked(0, 0, told.append, 0)
    assert told == [AckStatus.FENCED]
    assert a.node.refusal(0) is AckStatus.FENCED
    assert a.node.statistics() == {}
    a.node.link_accepted(9, "somebody", 0)
    assert len(a.node.pop_effects()) == 1


def test_the_lease_is_looked_at_again_before_anything_is_acknowledged() -> None:
    """S17: a process that slept through its lease acknowledges nothing when it wakes."""
    for safe in (True, False):
        a = Broker(1, safeguards=replace(SAFE, deadline_recheck_after_pause=safe))
        b = Broker(2)
        a.lead(1, 1, 2)
        cable = replicate(a, b, 1)
        told: list[AckStatus] = []
        a.write(1)
        a.node.when_acked(a.end, a.now + 3000, told.append, a.now)
        a.node.lease(lambda now: now < 5000)
        a.now = 5000
        cable.run()
        assert told == [AckStatus.FENCED if safe else AckStatus.ACKED]
        assert a.confirmed == (0 if safe else a.end)


def test_another_role_ends_what_waits_and_all_links() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    cable = replicate(a, b, 1)
    told: list[AckStatus] = []
    a.write(1)
    a.node.when_acked(a.end, a.now + 3000, told.append, a.now)
    a.follow(2)
    cable.carry_effects()
    assert told == [AckStatus.FENCED]
    assert not cable.up


def test_a_killed_follower_goes_on_where_it_was() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(20)
    replicate(a, b, 1, upto=a.end // 2 + 3)  # inside a record
    b.kill()
    replicate(a, b, 1)
    agree(a, b)


@pytest.mark.parametrize("seed", range(8))
def test_power_cuts_of_the_follower(seed: int) -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(20)
    replicate(a, b, 1, upto=a.end // 2 + 100 * seed).cut()  # the machine's links end with it
    b.cut_power(seed)
    cable = replicate(a, b, 1)
    a.write(3)
    cable.cut()
    b.cut_power(seed)
    replicate(a, b, 1)
    agree(a, b)


def test_a_killed_follower_becomes_master_with_a_torn_tail() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    marks = ends(a.write(20))
    replicate(a, b, 1, upto=marks[9] + 11)
    b.lead(2, 1, 2)
    assert b.epochs[-1] == (2, marks[9])
    b.write(1)
    replicate(b, a, 2)
    agree(b, a)


def test_a_pair_with_data_moves_to_controller_mode() -> None:
    """The upgrade of seed 002: logs of a plain pair, no epochs yet."""
    a, b = group(2)
    a.lead(1, 1, 2)
    a.write(10)
    replicate(a, b, 1)
    for broker in (a, b):
        broker.disk.remove("epochFileCheckpoint")
        broker.disk.remove("epochFileCheckpoint.bak")
        broker.options = replace(ALL_ACK, adopt_plain_log=True)
        broker.kill()
    end = a.end
    a.lead(1, 1, 2)
    a.write(2)
    replicate(a, b, 1)
    assert a.epochs == [(0, 0), (1, end)]
    agree(a, b)
    c = Broker(3)
    replicate(a, c, 1)
    agree(a, c)


def test_epochs_of_deleted_files_go() -> None:
    (a,) = group(1)
    a.lead(1)
    a.write(30)
    a.lead(2)
    a.write(30)
    assert len(a.epochs) == 2
    a.store.pointers.start = a.epochs[1][1] + 1
    a.node.tick(a.now)
    assert a.epochs == [(2, a.epochs[0][1])]


# Past the lease (ADR 0044) ------------------------------------------------------------------------


def test_past_its_lease_a_master_goes_on_while_its_whole_set_is_there() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    cable = replicate(a, b, 1)
    a.node.lease(lambda _now: False, lambda: 1000)
    assert a.node.may_serve(a.now)
    end = ends(a.write(1))[0]
    done: list[AckStatus] = []
    a.node.when_acked(end, a.now + 500, done.append, a.now)
    cable.run()
    assert done == [AckStatus.ACKED]
    assert a.confirmed == end
    assert b.end == end
    cable.cut()
    assert a.node.refusal(a.now) is AckStatus.FENCED
    assert not a.node.may_serve(a.now)


def test_without_leave_to_the_lease_is_the_end() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    replicate(a, b, 1)
    a.node.lease(lambda _now: False)
    assert a.node.refusal(a.now) is AckStatus.FENCED


def test_an_acknowledgement_from_before_a_pause_does_not_make_the_set_whole() -> None:
    """S17: the right is looked at before what has waited is read."""
    a, b = group(2)
    a.lead(1, 1, 2)
    cable = replicate(a, b, 1)
    a.node.lease(lambda _now: False, lambda: 1000)
    end = ends(a.write(1))[0]
    done: list[AckStatus] = []
    a.node.when_acked(end, a.now + 500, done.append, a.now)
    a.now += 1001
    cable.run()
    assert done == [AckStatus.FENCED]


def test_the_end_of_a_lease_is_awaited_with_heartbeats() -> None:
    a, b = group(2)
    a.lead(1, 1, 2)
    replicate(a, b, 1)
    assert a.node.master is not None
    a.node.lease(lambda now: now < 5000, lambda: 800)
    a.node.tick(4599)
    assert a.node.master.ping_ms == 0
    a.node.tick(4600)
    assert a.node.master.ping_ms == 100
