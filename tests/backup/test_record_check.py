"""Records of a log in parts: whole ones are accepted, flipped bits in checked bytes are not."""

from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, draft

from epochmq.backup import record_check as module
from epochmq.backup.record_check import RecordCheck
from epochmq.store.store import Store

FILE_BYTES = SMALL.commit_log_file_bytes


def log_bytes(count: int = 60) -> bytes:
    """A log of several files, with batches, and fillers at the ends of files."""
    disk, rng = SimDisk(), Random(7)
    store = Store.open(disk, SMALL, HOST, 1_700_000_000_000)
    topics = ("T0", "Batch0", "T1")
    for number in range(count):
        store.append([draft(number, rng, topics=topics)], 1_700_000_000_000 + number)
    end = store.pointers.appended
    store.close(1_700_000_000_000)
    files = (disk.read_file(f"commitlog/{name}") or b"" for name in disk.list("commitlog"))
    return b"".join(files)[:end]


LOG = log_bytes()


@pytest.fixture(params=["native", "python"])
def check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RecordCheck:
    if request.param == "python":
        monkeypatch.setattr(module, "library", lambda: None)
    made = RecordCheck(FILE_BYTES)
    if request.param == "native" and made._native is None:
        pytest.skip("there is no native code here")
    return made


def test_a_whole_log_is_sound(check: RecordCheck) -> None:
    assert len(LOG) > 3 * FILE_BYTES
    assert check.sound_bytes(memoryview(LOG), 0) == (len(LOG), "")


def test_a_log_in_parts_of_any_size_is_sound(check: RecordCheck) -> None:
    for size in (1, 7, 100, 4095, 4097):
        start, buffer = 0, b""
        for at in range(0, len(LOG), size):
            buffer += LOG[at : at + size]
            sound, problem = check.sound_bytes(memoryview(buffer), start)
            assert not problem, (size, at, problem)
            start, buffer = start + sound, buffer[sound:]
        assert (start, buffer) == (len(LOG), b"")


def test_a_log_at_another_place_is_not_sound(check: RecordCheck) -> None:
    assert check.sound_bytes(memoryview(LOG), 8) == (0, "torn or foreign record")


def test_flipped_bits_are_found_where_they_are(check: RecordCheck) -> None:
    rng = Random(3)
    ends = record_ends(check)
    missed = 0
    for _ in range(600):
        place = rng.randrange(len(LOG))
        data = bytearray(LOG)
        data[place] ^= 1 << rng.randrange(8)
        sound, _problem = check.sound_bytes(memoryview(data), 0)
        if sound == len(LOG):
            missed += 1  # a time, a host, a property: nothing in the record covers them
        else:
            assert sound == max(end for end in ends if end <= place)
    assert missed < 400


def record_ends(check: RecordCheck) -> list[int]:
    """The ends of all records and fillers, 0 included."""
    ends, at = [0], 0
    for end in range(len(LOG) + 1):
        sound, _ = check.sound_bytes(memoryview(LOG[at:end]), at)
        if sound:
            at += sound
            ends.append(at)
    return ends


@pytest.mark.parametrize("magic", [0xDAA320A7, 0xDAA320AB])
def test_an_impossible_size_is_no_reason_to_wait_for_more(magic: int, check: RecordCheck) -> None:
    head = (0xFFFFFFFF).to_bytes(4, "big") + magic.to_bytes(4, "big")
    assert check.sound_bytes(memoryview(head + bytes(32)), 0)[1] != ""
    short = (200).to_bytes(4, "big") + magic.to_bytes(4, "big")
    assert check.sound_bytes(memoryview(short + bytes(32)), 0) == (0, "")
    beyond = check.sound_bytes(memoryview(short + bytes(92)), FILE_BYTES - 100)
    assert beyond[1] != ""
