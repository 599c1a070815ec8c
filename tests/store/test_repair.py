"""Damage is replaced by the flipped bit, by a replica's bytes or by fillers; nothing else moves."""

from random import Random

import pytest
from sim.kernel.disk import PowerCut, SimDisk
from tests.store.test_damage import BOOT, OPTIONS, WALL, filled, flip, messages
from tests.store.world import HOST, has_batch_queues

from epochmq.base.errors import DiskFull
from epochmq.store.damage import LogDamaged
from epochmq.store.draft import Appended, Draft
from epochmq.store.repair import NotRight, Repair, fillers
from epochmq.store.scan import ScanEnd, walk
from epochmq.store.store import Store
from epochmq.store.verify import verify_directory


def stopped() -> tuple[SimDisk, set[tuple[str, int, int, bytes]]]:
    disk, store = filled()
    expected = messages(store)
    store.close(WALL + 40_000)
    return disk, expected


def opened(disk: SimDisk) -> Store:
    return Store.open(disk, OPTIONS, HOST, WALL + 60_000, has_batch_queues, boot=BOOT)


def scratch(disk: SimDisk, number: int, size: int = 1, shift: int = 30) -> None:
    """Overwrite bytes of the record with this number."""
    log = disk.contents()["commitlog/" + "0" * 20]
    starts = [entry.offset for entry in walk(memoryview(log), 0, 0, ScanEnd())]
    disk.open("commitlog/" + "0" * 20).write(starts[number] + shift, b"\xa5" * size)


def damaged_range(disk: SimDisk) -> tuple[int, int]:
    with pytest.raises(LogDamaged) as caught:
        opened(disk.kill())
    (damage,) = caught.value.damages
    return damage.start, damage.stop


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("shift", [2, 30, 90])
def test_a_filler_gives_up_one_message_and_moves_no_other(number: int, shift: int) -> None:
    disk, expected = stopped()
    old = disk.contents()["commitlog/" + "0" * 20]
    scratch(disk, number, 5, shift)
    low, high = damaged_range(disk)
    lost = {m for m in expected if low <= int.from_bytes(m[3][28:36], "big") < high}
    assert 1 <= len(lost) < len(expected)
    repair = Repair(disk, OPTIONS, has_batch_queues)
    (damage,) = repair.damages
    assert damage.bit is None
    repair.skip(damage)
    assert repair.search() == []
    repair.close()
    kept = disk.contents()[repair.kept[0]]
    assert (len(kept), kept != old[low:high]) == (high - low, True)
    disk = disk.crash(number)
    if len(lost) == 1 and next(iter(lost))[0] != "Batch":
        assert verify_directory(disk, OPTIONS, types=has_batch_queues).problems == []
        store = opened(disk)
        found = messages_with_holes(store)
        assert found == expected - lost
        after = Draft(next(iter(lost))[0], next(iter(lost))[1], b"later", b"", born_host=HOST)
        ends = store.queue_bounds(after.topic, after.queue_id)
        (place,) = store.append([after], WALL + 70_000)
        assert isinstance(place, Appended)
        assert place.queue_offset == ends[1] == 2


def messages_with_holes(store: Store) -> set[tuple[str, int, int, bytes]]:
    """What readers get who go on where they are told to."""
    found = set()
    for topic in store.topics():
        for queue_id in store.queues(topic):
            at, high = store.queue_bounds(topic, queue_id)
            while at < high:
                result = store.read_queue(topic, queue_id, at, 1, 1 << 20)
                for chunk in result.chunks:
                    place = int.from_bytes(chunk[20:28], "big")
                    found.add((topic, queue_id, place, bytes(chunk)))
                assert result.next_offset > at
                at = result.next_offset
    return found


def test_queues_that_are_made_again_have_the_same_holes() -> None:
    disk, _expected = stopped()
    scratch(disk, 2, 5)
    repair = Repair(disk, OPTIONS, has_batch_queues)
    repair.skip(repair.damages[0])
    repair.close()
    store = opened(disk.kill())
    found = messages_with_holes(store)
    bounds = [store.queue_bounds(t, q) for t in store.topics() for q in store.queues(t)]
    for folder in ("consumequeue", "batchconsumequeue"):
        disk.remove(folder)
    store = opened(disk)
    assert messages_with_holes(store) == found
    again = [store.queue_bounds(t, q) for t in store.topics() for q in store.queues(t)]
    # The first offset of a queue whose first message is given up is the second message's.
    assert [high for _low, high in again] == [high for _low, high in bounds]


def test_the_one_bit_is_flipped_back() -> None:
    rng = Random(6)
    disk, expected = stopped()
    for _ in range(200):
        damaged = disk.kill()
        flip(damaged, "commitlog/" + "0" * 20, rng.randrange(600 * 8))
        repair = Repair(damaged, OPTIONS, has_batch_queues)
        assert all(repair.mend(damage) for damage in repair.damages)
        assert repair.search() == []
        repair.close()
        assert messages(opened(damaged)) == expected


def test_a_replicas_bytes_restore_everything() -> None:
    disk, expected = stopped()
    whole = disk.contents()["commitlog/" + "0" * 20]
    scratch(disk, 3, 40)
    repair = Repair(disk, OPTIONS, has_batch_queues)
    (damage,) = repair.damages
    low, high = repair.around(damage)
    for at, why in ((damage.start + 90, "damaged|checksum"), (damage.stop, "another log")):
        bad = bytearray(whole[low:high])
        bad[at - low] ^= 1
        before = disk.contents()
        with pytest.raises(NotRight, match=why):
            repair.copy(damage, low, bytes(bad))
        assert disk.contents() == before
    with pytest.raises(NotRight, match="no bytes"):
        repair.copy(damage, low, whole[low : damage.stop - 1])
    repair.copy(damage, low, whole[low:high])
    assert repair.search() == []
    repair.close()
    assert messages(opened(disk.crash(1))) == expected


def test_lost_files_at_the_end_can_be_given_up() -> None:
    disk, store = filled()
    for number in range(20):
        store.append([Draft("T", 0, b"x" * 200, b"", born_host=HOST)], WALL + 50_000 + number)
    store.close(WALL + 60_000)
    disk.remove("commitlog/" + disk.list("commitlog")[-1])
    repair = Repair(disk, OPTIONS, has_batch_queues)
    (damage,) = repair.damages
    assert damage.reason == "files are missing"
    repair.skip(damage)
    assert repair.search() == []
    repair.close()
    assert opened(disk.crash(2)).pointers.appended == damage.start


def test_no_space_for_the_old_bytes_changes_nothing() -> None:
    disk, _expected = stopped()
    scratch(disk, 3)
    repair = Repair(disk, OPTIONS, has_batch_queues)
    log = disk.contents()["commitlog/" + "0" * 20]
    disk.quota_bytes = 0
    with pytest.raises(DiskFull):
        repair.skip(repair.damages[0])
    assert disk.contents()["commitlog/" + "0" * 20] == log


def test_a_repair_may_be_cut_off_anywhere() -> None:
    operation = 0
    done = False
    while not done:
        operation += 1
        disk, expected = stopped()
        scratch(disk, 3, 40)
        repair = Repair(disk, OPTIONS, has_batch_queues)
        disk.stop_at = disk.operations + operation
        try:
            repair.skip(repair.damages[0])
            done = True
        except PowerCut:
            pass
        for after in (disk.kill(), disk.crash(operation)):
            second = Repair(after, OPTIONS, has_batch_queues)
            for damage in second.damages:
                second.skip(damage)
            assert second.search() == []
            second.close()
            found = messages_with_holes(opened(after))
            assert found < expected
            assert len(found) == len(expected) - 1
    assert operation > 5


@pytest.mark.parametrize("size", [92, 93, 105, 106, 107, 5000, (1 << 20) + 50, 3 << 20])
def test_fillers_are_records_of_any_size(size: int) -> None:
    data = fillers(4096, 4096 + size, 7)
    end = ScanEnd()
    found = list(walk(memoryview(data), 4096, 0, end))
    assert sum(entry.size for entry in found) == len(data) == size
    assert end.offset == 4096 + size


@pytest.mark.parametrize("size", [8, 91, 181, 182, 5000])
def test_fillers_end_a_file_with_a_blank(size: int) -> None:
    data = fillers(4096, 4096 + size, 7, ends_file=True)
    end = ScanEnd()
    for _ in walk(memoryview(data), 4096, 0, end):
        pass
    assert (end.reason, end.rolled, end.offset) == ("blank", True, 4096 + size)
