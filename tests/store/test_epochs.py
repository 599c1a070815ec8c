"""The epoch file and the truncation point: RIP-44's six cases, hazards H1-H6 and H15."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import PowerCut, SimDisk

from epochmq.base.limits import EPOCHS_SENT_MAX
from epochmq.model.crc import crc32
from epochmq.store.epochs import (
    FILE,
    OPEN_END,
    EpochEntry,
    EpochFile,
    StaleEpoch,
    _format,
    _parse,
    consistent_point,
    with_ends,
)


def made(*entries: tuple[int, int], disk: SimDisk | None = None) -> EpochFile:
    file = EpochFile(disk or SimDisk())
    for epoch, start in entries:
        file.append(epoch, start)
    return file


def pairs(file: EpochFile) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start) for entry in file.entries]


# The six cases of "Truncation example analysis" (seed 002): own entries, own end, the new
# master's entries and end, the point.
RIP_44 = {
    "1 the old master has more of its epoch": ([(0, 0)], 1000, [(0, 0), (1, 900)], 1100, 900),
    "2 the new master lost what it had not flushed": ([(0, 0)], 1000, [(0, 0)], 900, 900),
    "3 a follower that only lags": ([(0, 0), (1, 900)], 1200, [(0, 0), (1, 900)], 1500, 1200),
    "4 two masters went on from 900": ([(0, 0), (1, 950)], 1000, [(0, 0), (2, 900)], 1300, 900),
    "5 an epoch that neither of two followers has": (
        [(0, 0), (1, 400), (3, 900)],
        1100,
        [(0, 0), (1, 400), (4, 800)],
        1200,
        800,
    ),
    "6 an epoch of the deposed alone": ([(0, 0), (1, 1000)], 1200, [(0, 0), (2, 1000)], 1100, 1000),
}


@pytest.mark.parametrize("case", RIP_44, ids=lambda name: name[0])
def test_the_six_cases_of_rip_44(case: str) -> None:
    own, own_end, master, master_end, point = RIP_44[case]
    assert made(*own).consistent_point(own_end, master, master_end) == point


def test_the_other_follower_of_case_5() -> None:
    master = [(0, 0), (1, 400), (4, 800)]
    assert consistent_point([(0, 0), (1, 400), (2, 850)], 900, master, 1200) == 800


def test_one_number_that_began_in_two_places_is_two_epochs() -> None:
    """Wiped controllers may give a number again that one replica alone knows, whose log then parts
    from the others' where the first of both began."""
    for start in (800, 900, 950):
        other = 1_700 - start
        assert consistent_point([(0, 0), (1, start)], 1000, [(0, 0), (1, other)], 1200) == min(
            start, other
        )
    assert consistent_point([(0, 0), (1, 850)], 1000, [(0, 0), (1, 850)], 1200) == 1000
    twice = [(0, 0), (1, 400), (2, 500)]
    assert consistent_point([(0, 0), (1, 400), (2, 600)], 700, twice, 900) == 500
    assert consistent_point([(0, 0), (1, 300), (2, 600)], 700, twice, 900) == 300


def test_an_empty_epoch_is_kept_and_found() -> None:
    """H1: the new master saw epoch 2 in heartbeats only; the old one wrote in it."""
    master = made((1, 0), (2, 100))
    master.append(3, 100)
    assert pairs(master) == [(1, 0), (2, 100), (3, 100)]
    assert consistent_point([(1, 0), (2, 100)], 150, master.entries, 300) == 100
    # H2: in an empty store a Java follower knows the older epoch only.
    assert consistent_point([(1, 0)], 0, [(1, 0), (2, 0)], 500) == 0


def test_delayed_followers_of_empty_epochs_agree() -> None:
    """S07: nothing was written, each saw another epoch."""
    assert consistent_point([(2, 0)], 0, [(1, 0), (3, 0)], 0) == 0
    assert consistent_point([(2, 0)], 70, [(1, 0), (3, 0)], 90) == 0
    file = made((2, 0))
    file.adopt([(1, 0), (3, 0), (4, 50)], 70)
    assert pairs(file) == [(1, 0), (3, 0), (4, 50)]


def test_adopted_entries_keep_what_the_master_forgot() -> None:
    file = made((1, 0), (2, 100), (4, 300))
    file.adopt([(2, 100), (3, 200), (5, 400)], 300)
    assert pairs(file) == [(1, 0), (2, 100), (3, 200)]
    file.adopt([(6, 900)], 250)
    assert pairs(file) == [(1, 0), (2, 100), (3, 200)]


def test_a_stale_epoch_is_refused() -> None:
    file = made((1, 0), (3, 100))
    file.append(3, 100)  # a transfer header repeats it
    for epoch, start in ((2, 200), (3, 150), (4, 99), (1, 0)):
        with pytest.raises(StaleEpoch):
            file.append(epoch, start)
    with pytest.raises(StaleEpoch):
        made().append(-1, 0)
    assert pairs(file) == [(1, 0), (3, 100)]


def test_ends_follow_each_change() -> None:
    """H4: a stale end would answer heartbeats for ever."""
    file = made((1, 0), (2, 100), (3, 200))
    assert [entry.end for entry in file.entries] == [100, 200, OPEN_END]
    file.cut_suffix(200)
    assert file.entry_at(5000) == EpochEntry(2, 100, OPEN_END)
    assert (file.entry_at(99), file.last_epoch) == (EpochEntry(1, 0, 100), 2)
    assert made((5, 40)).entry_at(39) is None
    assert made().last_epoch == -1


def test_entries_outside_the_log_go_at_open() -> None:
    """H5: the log was wiped; H6: the entry came before its bytes."""
    file = made((1, 0), (2, 100), (3, 200))
    file.reconcile(0, 150)
    assert pairs(file) == [(1, 0), (2, 100)]
    file.reconcile(100, 150)
    assert pairs(file) == [(1, 0), (2, 100)]  # a point at the log's very start is still found
    file.reconcile(101, 150)
    assert pairs(file) == [(2, 100)]
    file.reconcile(0, 50)
    assert file.entries == []


def test_a_list_that_became_empty_does_not_come_back() -> None:
    disk = SimDisk()
    made((1, 10), (2, 20), disk=disk).cut_suffix(10)
    assert EpochFile(disk.crash(1)).entries == []


def test_retention_never_takes_the_last_epoch() -> None:
    file = made((1, 0), (2, 100), (3, 200))
    file.cut_prefix(1000)
    assert pairs(file) == [(3, 200)]


def test_what_the_file_looks_like() -> None:
    disk = SimDisk()
    made((1, 0), (3, 123456), disk=disk)
    assert disk.read_file(FILE) == b"2\n210043531\n1-0\n3-123456\n"  # as a Java broker writes it
    lines = b"1-0\r\n3-9\r\n"
    disk.write_file(FILE, b"2\r\n%d\r\n%s" % (crc32(lines), lines))
    assert pairs(EpochFile(disk)) == [(1, 0), (3, 9)]
    disk.write_file(FILE, b"1\n0\n7-3\n")  # 0: not checked
    assert pairs(EpochFile(disk)) == [(7, 3)]


@pytest.mark.parametrize(
    "text",
    [b"", b"x", b"1\n0\n", b"2\n0\n1-0\n", b"1\n5\n1-0\n", b"2\n0\n2-0\n1-5\n", b"1\n0\n1-2-3\n"],
)
def test_a_damaged_file_counts_as_missing(text: bytes) -> None:
    disk = SimDisk()
    disk.write_file(FILE, text)
    assert EpochFile(disk).entries == []


def test_a_backup_is_believed_only_so_far(caplog: pytest.LogCaptureFixture) -> None:
    """H15: the newest entry is missing in it; what is confirmed is equal everywhere."""
    disk = SimDisk()
    made((1, 0), (2, 100), (3, 200), disk=disk)
    disk.write_file(FILE, b"torn")
    file = EpochFile(disk)
    assert (pairs(file), file.doubtful_from) == ([(1, 0), (2, 100)], 100)
    assert "may be missing" in caplog.text
    master = [(1, 0), (2, 100), (4, 250)]
    assert file.consistent_point(300, master, 400) == 100
    assert file.consistent_point(300, master, 400, confirmed=180) == 180
    assert file.consistent_point(300, master, 400, confirmed=300) == 250
    file.adopt(master, 180)
    assert file.doubtful_from is None


def test_a_store_from_before_controller_mode() -> None:
    """Upgrading in place demands aligned logs (seed 002); the first master's epoch starts there."""
    assert consistent_point([], 700, [(1, 700)], 900) == 700
    assert consistent_point([], 690, [(1, 700)], 900) is None
    assert consistent_point([], 700, [(1, 0)], 900) is None  # the file was lost: an empty replica
    assert consistent_point([], 0, [(1, 0)], 900) == 0
    assert consistent_point([], 0, [], 0) is None


def test_a_point_is_never_behind_the_own_end() -> None:
    """H5: the log was wiped, the file was not."""
    assert consistent_point([(5, 1000)], 0, [(5, 1000), (6, 1500)], 1600) == 0
    assert consistent_point([(5, 1000)], 300, [(4, 800), (6, 900)], 1600) == 300


def test_no_common_epoch() -> None:
    # The master's older epochs are gone by retention: everything must be fetched again.
    assert consistent_point([(1, 0), (2, 100)], 300, [(5, 1000)], 1500) is None
    # The own older ones are: what lies before the own first one came from an older master.
    assert consistent_point([(2, 100)], 300, [(1, 0), (3, 50)], 400) == 50
    assert consistent_point([(2, 100)], 300, [(1, 0), (3, 200)], 400) == 100


def test_more_epochs_than_a_handshake_takes() -> None:
    file = EpochFile(SimDisk())
    file._save([EpochEntry(n, n // 2 * 10) for n in range(2 * EPOCHS_SENT_MAX + 10)])
    sent = file.newest()
    assert len(sent) == EPOCHS_SENT_MAX
    assert all(entry.end > entry.start for entry in sent)
    assert sent[-1] == file.entries[-1]
    assert file.newest(5000) == file.entries
    again = EpochFile(file._disk)
    assert again.entries == file.entries


def test_every_crash_leaves_the_old_or_the_new_list() -> None:
    changes: tuple[Callable[[EpochFile], None], ...] = (
        lambda f: f.append(4, 300),
        lambda f: f.cut_suffix(200),
        lambda f: f.cut_suffix(0),
        lambda f: f.cut_prefix(150),
    )
    for change in changes:
        for operation in range(1, 60):
            disk = SimDisk()
            file = made((1, 0), (2, 100), (3, 200), disk=disk)
            before = pairs(file)
            disk.stop_at = disk.operations + operation
            try:
                change(file)
            except PowerCut:
                for seed in range(4):
                    found = pairs(EpochFile(disk.crash(seed)))
                    expected = made(*before)
                    change(expected)
                    assert found in (before, pairs(expected))
                continue
            disk.stop_at = None
            assert pairs(EpochFile(disk.crash(operation))) == pairs(file)
            break
        else:
            raise AssertionError("the change never ended")


# Histories of a group against the bytes they made ------------------------------------------------


def slow_point(own: list[int], master: list[int]) -> int:
    """Logs as one epoch a byte: where they part."""
    same = 0
    while same < min(len(own), len(master)) and own[same] == master[same]:
        same += 1
    return same


def history(log: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    entries: list[tuple[int, int]] = []
    data: list[int] = []
    for epoch, count in log:
        entries.append((epoch, len(data)))
        data += [epoch] * count
    return entries, data


@given(st.integers(0, 1 << 30))
def test_the_point_is_where_the_logs_part(seed: int) -> None:
    """Three replicas take turns as master from a common point; any two must agree on one."""
    rng = Random(seed)
    replicas = [history([(1, rng.randrange(3))])] * 3
    for epoch in range(2, 8):
        entries, data = replicas[rng.randrange(3)]
        entries = [*entries, (epoch, len(data))]
        data = data + [epoch] * rng.randrange(4)
        for number in range(3):
            if rng.randrange(2):
                own_entries, own_data = replicas[number]
                point = consistent_point(own_entries, len(own_data), entries, len(data))
                assert point == slow_point(own_data, data), (own_entries, entries)
                take = rng.randrange(point, len(data) + 1)
                replicas[number] = [e for e in entries if e[1] <= take], data[:take]
    for own_entries, own_data in replicas:
        for master_entries, master_data in replicas:
            point = consistent_point(own_entries, len(own_data), master_entries, len(master_data))
            assert point == slow_point(own_data, master_data)


def test_with_ends() -> None:
    assert with_ends([]) == []
    assert with_ends([(1, 0), (2, 5)], 9) == [EpochEntry(1, 0, 5), EpochEntry(2, 5, 9)]


@pytest.mark.parametrize("entries", [[(1, 0)], [(1, 0), (2, 700), (5, 99_000)]])
def test_any_flipped_bit_is_found(entries: list[tuple[int, int]]) -> None:
    data = bytearray(_format(entries))
    for bit in range(len(data) * 8):
        data[bit >> 3] ^= 1 << (bit & 7)
        assert _parse(bytes(data)) in (None, entries), bit
        data[bit >> 3] ^= 1 << (bit & 7)


def test_epochs_that_are_forgotten_are_saved_by_the_next_change() -> None:
    """Between a cut of the log and the cut of the file nobody is told of epochs behind the log."""
    disk = SimDisk()
    file = made((1, 0), (2, 500), (3, 900), disk=disk)
    file.forget_suffix(500)
    assert pairs(file) == [(1, 0)]
    assert file.last_epoch == 1
    assert pairs(EpochFile(disk)) == [(1, 0), (2, 500), (3, 900)]
    file.adopt([(1, 0)], 500)  # what memory has already
    assert pairs(EpochFile(disk)) == [(1, 0)]
    file.forget_suffix(500)
    operations = disk.operations
    file.adopt([(1, 0)], 500)
    assert disk.operations == operations, "nothing was forgotten, so nothing is written"
