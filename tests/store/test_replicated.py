"""Raw bytes in and out, confirmation, cutting, switching: `Store` as replication uses it."""

import pytest
from sim.kernel.disk import SimDisk
from tests.store.replicas import REPLICATED, WALL, fill, log_bytes, opened, ship, shown
from tests.store.world import everything

from epochmq.base.errors import PeerError, UsageError
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.model.record import decode
from epochmq.store.chores import run_steps
from epochmq.store.epochs import EpochEntry
from epochmq.store.replicated import BelowConfirmed


@pytest.mark.parametrize("chunk", [1, 7, 91, 500, 5000])
def test_a_follower_takes_the_log_at_any_boundary(chunk: int) -> None:
    master, follower = opened(), opened()
    placed = fill(master, 30)
    ship(master, follower, chunk=chunk)
    assert log_bytes(follower) == log_bytes(master)
    assert follower.whole_end == follower.pointers.appended == master.pointers.appended
    assert shown(follower) == {}
    middle = placed[11].offset
    follower.limit_confirm(middle)
    master.limit_confirm(middle)
    assert shown(follower) == shown(master) != {}
    follower.limit_confirm(1 << 40)
    master.limit_confirm(None)
    assert shown(follower) == shown(master)
    assert len(list(everything(follower))) == 30
    assert follower.verify().problems == []


def test_a_unit_shows_when_its_whole_record_is_confirmed() -> None:
    store = opened()
    placed = fill(store, 3)
    for place in placed:
        store.limit_confirm(place.offset + place.size - 1)
        assert store.message_at(place.offset) is None
        before = len(list(everything(store)))
        store.limit_confirm(place.offset + place.size)
        assert len(list(everything(store))) == before + 1


def test_confirmed_never_goes_back() -> None:
    store = opened()
    placed = fill(store, 5)
    store.limit_confirm(placed[3].offset)
    store.limit_confirm(placed[1].offset)
    assert store.pointers.confirmed == placed[3].offset
    fill(store, 2, seed=2)
    assert store.pointers.confirmed == placed[3].offset


def test_a_follower_refuses_appends_until_it_is_sealed() -> None:
    master, follower = opened(), opened()
    placed = fill(master, 8)
    ship(master, follower, upto=placed[6].offset + 5)
    assert follower.append([], WALL) == []
    assert not follower.writable
    assert follower.seal_tail() == placed[6].offset
    assert follower.writable
    more = fill(follower, 3, seed=3)
    assert more[0].offset == placed[6].offset
    follower.limit_confirm(None)
    assert follower.verify().problems == []


def test_queue_offsets_go_on_from_the_whole_log() -> None:
    """rocketmq#7689: nothing is confirmed, the tail counts all the same."""
    master, follower = opened(), opened()
    fill(master, 10, topics=("T0",) * 3)
    ship(master, follower)
    follower.seal_tail()
    fill(follower, 10, seed=2, topics=("T0",) * 3)
    follower.limit_confirm(None)
    assert follower.verify().problems == []
    assert sum(high for _low, high in shown(follower).values()) == 20


def test_without_the_safeguard_queue_offsets_are_given_twice() -> None:
    """rocketmq#7689: what the simulator must find when a new master counts confirmed units only."""
    found = []
    for safeguards in (SAFE, Safeguards(queue_offsets_from_whole_log=False)):
        master, follower = opened(), opened(safeguards=safeguards)
        placed = fill(master, 8, topics=("T0",) * 3)
        ship(master, follower)
        follower.limit_confirm(placed[4].offset)
        follower.seal_tail()
        follower.limit_confirm(None)
        after = fill(follower, 8, seed=2, topics=("T0",) * 3)
        data = log_bytes(follower)
        offsets = [
            (message.queue_id, message.queue_offset)
            for message in (decode(data, place.offset) for place in placed + after)
        ]
        found.append(len(offsets) - len(set(offsets)))
    assert found[0] == 0
    assert found[1] > 0


def test_without_the_safeguard_readers_see_what_may_be_cut() -> None:
    """INV-23: what the simulator must find when reads are not bounded by `confirmed`."""
    seen = []
    for safeguards in (SAFE, Safeguards(read_limit_is_confirmed=False)):
        master, follower = opened(), opened(safeguards=safeguards)
        placed = fill(master, 8)
        ship(master, follower)
        follower.limit_confirm(placed[4].offset)
        seen.append(len(list(everything(follower))))
    assert seen == [4, 8]


def test_a_damaged_record_is_not_taken() -> None:
    """S11: the follower ends before it, durably, and cuts the link."""
    master, disk = opened(), SimDisk()
    follower = opened(disk)
    placed = fill(master, 6)
    data = bytearray(log_bytes(master))
    data[placed[3].offset + 90] ^= 1
    with pytest.raises(PeerError, match="bad record"):
        follower.append_raw(0, bytes(data[: placed[5].offset]))
    assert opened(disk.crash(0)).pointers.appended <= placed[3].offset
    run_steps(follower.cutting_tail("damaged"))
    assert follower.pointers.appended == follower.whole_end == placed[3].offset
    assert follower.verify().problems == []
    assert opened(disk.crash(1)).pointers.appended <= placed[3].offset
    with pytest.raises(PeerError, match="no record"):
        follower.append_raw(placed[3].offset, b"garbage that is not a record")
    run_steps(follower.cutting_tail("damaged"))
    ship(master, follower)
    assert log_bytes(follower) == log_bytes(master)


def test_bytes_for_another_place_are_refused() -> None:
    with pytest.raises(PeerError, match="the log ends at 0"):
        opened().append_raw(5, b"x")


def test_a_cut_is_reported_kept_and_durable() -> None:
    disk = SimDisk()
    store = opened(disk)
    placed = fill(store, 30)
    at = placed[9].offset
    store.limit_confirm(placed[5].offset)
    store.sync()
    gone = log_bytes(store)[at:]
    epochs = [EpochEntry(1, 0, placed[20].offset), EpochEntry(2, placed[20].offset)]
    cut = store.truncate(at, "a new master", epochs=epochs)
    assert (cut.offset, cut.size, cut.count, cut.epochs) == (at, len(gone), 21, (1, 2))
    assert cut.kept[0] == f"cut/1-{at}.log"
    assert b"".join(disk.read_file(path) or b"" for path in cut.kept) == gone
    assert store.pointers.appended == at
    again = opened(disk.crash(3))
    assert again.pointers.appended == at
    for one in (store, again):
        fill(one, 4, seed=5)
        one.limit_confirm(None)
        assert one.verify().problems == []
        assert len(list(everything(one))) == 9 + 4


def test_below_the_confirmed_only_an_operator_cuts() -> None:
    store = opened()
    placed = fill(store, 9)
    store.limit_confirm(placed[5].offset)
    with pytest.raises(BelowConfirmed):
        store.truncate(placed[4].offset, "deposed")
    cut = store.truncate(placed[4].offset, "an order", operator=True)
    assert cut.below_confirmed == placed[5].offset - placed[4].offset
    assert store.pointers.confirmed == placed[4].offset
    assert len(list(everything(store))) == 4


def test_only_at_a_record() -> None:
    store = opened()
    placed = fill(store, 9)
    with pytest.raises(PeerError, match="no record begins"):
        store.truncate(placed[4].offset + 1, "wrong")
    assert store.truncate(store.pointers.appended, "nothing").size == 0


def test_an_empty_log_begins_where_the_master_does() -> None:
    master, disk = opened(), SimDisk()
    follower = opened(disk)
    fill(master, 30)
    start = 2 * REPLICATED.commit_log_file_bytes
    with pytest.raises(PeerError):
        follower.reset_to(start + 1)
    follower.reset_to(start)
    ship(master, follower)
    follower.limit_confirm(master.pointers.appended)
    assert (follower.pointers.start, follower.pointers.appended) == (
        start,
        master.pointers.appended,
    )
    assert follower.verify().problems == []
    with pytest.raises(UsageError):
        follower.reset_to(0)
    follower.reset_to(0, operator=True)
    assert (follower.pointers.appended, shown(follower)) == (0, {})
    ship(master, follower)
    assert log_bytes(follower) == log_bytes(master)


def test_slices_and_files() -> None:
    store = opened()
    placed = fill(store, 30)
    size = REPLICATED.commit_log_file_bytes
    assert bytes(store.slice(placed[2].offset, 20)) == log_bytes(store)[placed[2].offset :][:20]
    assert len(store.slice(size - 10, 100)) == 10
    assert len(store.slice(store.pointers.appended, 10)) == 0
    found = store.file_of(size + 5)
    assert found is not None
    assert (found[0].path, found[1], found[2]) == (f"commitlog/{size:020d}", 5, size - 5)
    assert store.file_of(store.pointers.appended) is None


def test_a_restart_shows_what_was_confirmed() -> None:
    """rocketmq#6609, #6703."""
    disk = SimDisk()
    store = opened(disk)
    placed = fill(store, 20)
    store.limit_confirm(placed[8].offset + 3)
    store.close(WALL)
    again = opened(disk)
    assert again.clean_start
    assert again.pointers.confirmed == placed[8].offset + 3
    assert len(list(everything(again))) == 8
    again.limit_confirm(placed[12].offset)
    assert [decode(r).offset for *_, r in everything(again)].count(placed[11].offset) == 1
    assert len(list(everything(again))) == 12
    again.limit_confirm(None)
    assert len(list(everything(again))) == 20
    assert again.verify().problems == []


def test_a_fenced_store_takes_no_bytes() -> None:
    store = opened()
    store.fence("test")
    with pytest.raises(Exception, match="fenced"):
        store.append_raw(0, b"x")


def test_nothing_unconfirmed_is_told() -> None:
    store = opened()
    placed = fill(store, 6, topics=("T0",) * 3)
    assert store.topics() == ["T0"]
    assert store.earliest_time() == -1
    assert store.message_at(0) is None
    assert [store.queue_bounds("T0", q) for q in store.queues("T0")] == [(0, 0), (0, 0)]
    assert store.store_time("T0", 0, 0) == -1
    assert store.offset_by_time("T0", 0, WALL + 99) == 0
    assert not store.is_batched("T0")
    store.limit_confirm(placed[-1].offset)
    assert store.earliest_time() == WALL
    assert store.message_at(placed[-1].offset) is None
    assert sum(store.queue_bounds("T0", q)[1] for q in (0, 1)) == 5
    found = store.read_queue("T0", 0, 0, 10, 1 << 20)
    assert found.count == found.max_offset == store.queue_bounds("T0", 0)[1]
