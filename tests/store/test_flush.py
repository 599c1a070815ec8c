"""Sync points and their waiters."""

from sim.kernel.disk import SimDisk
from tests.store.world import SMALL

from epochmq.store.commit_log import CommitLog
from epochmq.store.flush import Flusher
from epochmq.store.pointers import Pointers


def made() -> tuple[SimDisk, CommitLog, Pointers, Flusher]:
    disk = SimDisk()
    disk.make_dir("commitlog")
    log = CommitLog(disk, SMALL)
    pointers = Pointers()
    log.roll()
    return disk, log, pointers, Flusher(log, pointers, lambda: log.end)


def test_waiters_are_called_in_order_once_covered() -> None:
    _disk, log, pointers, flusher = made()
    told: list[tuple[str, bool]] = []
    log.write(b"x" * 100)
    flusher.wait(50, lambda ok: told.append(("a", ok)))
    flusher.wait(200, lambda ok: told.append(("b", ok)))
    flusher.wait(10, lambda ok: told.append(("c", ok)))
    end, call = flusher.point(7)
    call()
    assert (end, flusher.done(end), pointers.synced) == (100, 7, 100)
    flusher.release()
    assert told == [("a", True)]
    flusher.fail()
    flusher.wait(1, lambda ok: told.append(("d", ok)))
    assert told[1:] == [("b", False), ("c", False), ("d", False)]


def test_a_point_over_several_files_syncs_each_in_order() -> None:
    disk, log, _pointers, flusher = made()
    log.write(b"x" * 4000)
    log.roll()
    log.write(b"y")
    seen: list[str] = []
    disk.on_operation = lambda _n, what: seen.append(what)
    _end, call = flusher.point(1)
    call()
    assert seen == ["sync commitlog/" + "0".zfill(20), "sync commitlog/" + "4096".zfill(20)]


def test_older_points_are_covered_by_newer_ones() -> None:
    _disk, log, pointers, flusher = made()
    log.write(b"x" * 10)
    flusher.point(1)
    log.write(b"x" * 10)
    newest, _call = flusher.point(2)
    assert flusher.done(newest) == 2
    assert flusher.done(5) is None
    assert (pointers.synced, flusher.count) == (20, 2)


def test_a_cut_voids_every_point_under_way_also_two_of_one_end() -> None:
    """A flush and the index's sync may both be under way to one end (INV-11)."""
    _disk, log, pointers, flusher = made()
    log.write(b"x" * 100)
    first, _ = flusher.point(1)
    second, _ = flusher.point(1)
    assert first == second == 100
    flusher.done(first)
    pointers.synced = 40
    flusher.cut(40)
    flusher.done(second)
    assert pointers.synced == 40, "it says nothing about what is written there next"
    flusher.done(flusher.point(2)[0])
    assert pointers.synced == 100
