"""When writes are refused, and when they are taken again."""

from sim.kernel.disk import SimDisk

from epochmq.base.errors import DiskFailed, DiskFull, OutOfResources
from epochmq.store.draft import PutStatus
from epochmq.store.gate import LOOKS_WHILE_FULL, Gate

REFUSED = PutStatus.SERVICE_NOT_AVAILABLE


def full() -> None:
    raise DiskFull("still")


def test_a_full_disk_heals_when_more_space_shows() -> None:
    disk = SimDisk(quota_bytes=4096)
    gate = Gate(disk, 0.9)
    gate.failed(DiskFull("no space"))
    gate.failed(DiskFull("no space"))
    assert (gate.refusal, gate.disk_full) == (REFUSED, True)
    tried: list[int] = []
    gate.look(0.5, lambda: tried.append(1))
    assert (tried, gate.refusal) == ([], REFUSED)
    disk.quota_bytes = 8192
    gate.look(0.95, lambda: tried.append(1))
    assert tried == []
    gate.look(0.5, full)
    assert gate.refusal is REFUSED
    disk.quota_bytes = 16384
    gate.look(0.5, lambda: tried.append(1))
    assert (tried, gate.refusal) == ([1], None)
    gate.look(0.5, full)
    assert gate.refusal is None


def test_without_more_space_it_is_tried_now_and_then() -> None:
    gate = Gate(SimDisk(), 0.9)
    gate.failed(DiskFull("quota"))
    for _ in range(LOOKS_WHILE_FULL - 1):
        gate.look(0.1, lambda: None)
        assert gate.disk_full
    gate.look(0.1, lambda: None)
    assert not gate.disk_full


def test_want_of_descriptors_heals_as_soon_as_there_are_some() -> None:
    gate = Gate(SimDisk(), 0.9)
    gate.failed(OutOfResources("too many open files"))
    assert (gate.refusal, gate.fenced, gate.disk_full) == (REFUSED, None, False)
    assert gate.out_of_resources

    def still_short() -> None:
        raise OutOfResources("too many open files")

    gate.look(0.1, still_short)
    assert gate.refusal is REFUSED
    gate.look(0.1, lambda: None)
    assert (gate.refusal, gate.out_of_resources) == (None, False)


def test_a_full_disk_without_descriptors_heals_from_both() -> None:
    gate = Gate(SimDisk(), 0.9)
    gate.failed(DiskFull("no space"))
    gate.failed(OutOfResources("too many open files"))
    for _ in range(LOOKS_WHILE_FULL):
        gate.look(0.1, lambda: None)
    assert (gate.refusal, gate.disk_full, gate.out_of_resources) == (None, False, False)


def test_the_warning_level_refuses() -> None:
    gate = Gate(SimDisk(), 0.9)
    gate.look(0.91, full)
    assert gate.refusal is REFUSED


def test_any_other_failure_is_final_and_the_first_reason_stays() -> None:
    gate = Gate(SimDisk(), 0.9)
    gate.failed(DiskFailed("I/O error"))
    gate.fence("later")
    gate.look(0.1, lambda: None)
    assert (gate.fenced, gate.refusal) == ("I/O error", REFUSED)


def test_shut() -> None:
    gate = Gate(SimDisk(), 0.9)
    gate.shut()
    assert gate.refusal is REFUSED
