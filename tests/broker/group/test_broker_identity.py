"""Who this replica is: files in RocketMQ's format, and those beside them."""

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base.errors import StoreDamaged
from epochmq.base.limits import EPOCH_MAX
from epochmq.broker.group.broker_identity import IDENTITY, IdentityFiles, Known, Temp


def files(disk: FakeDisk, broker: str = "b") -> IdentityFiles:
    return IdentityFiles(disk, "", "C", broker)


def test_the_file_is_rocketmqs() -> None:
    """Cluster#brokerName#brokerId."""
    disk = FakeDisk()
    files(disk).save_id(3)
    assert disk.read_file(IDENTITY) == b"C#b#3"
    assert files(disk).broker_id() == 3


def test_the_temporary_file_is_rocketmqs_and_goes_when_the_id_is_kept() -> None:
    disk = FakeDisk()
    files(disk).save_temp(Temp(3, "10.0.0.1:10911;17"))
    assert disk.read_file("brokerIdentity-temp") == b"C#b#3#10.0.0.1:10911;17"
    assert files(disk).temp() == Temp(3, "10.0.0.1:10911;17")
    files(disk).save_id(3)
    assert files(disk).temp() is None


def test_nothing_there_is_nothing_known() -> None:
    disk = FakeDisk()
    assert files(disk).broker_id() is None
    assert files(disk).temp() is None
    assert files(disk).known() == Known()


@pytest.mark.parametrize("text", [b"C#b", b"C#b#x", b"C#b#0", b"C#other#3", b"D#b#3", b"garbage"])
def test_a_file_that_is_not_ours_stops_the_start(text: bytes) -> None:
    """rocketmq#7704: said with what to do about it."""
    disk = FakeDisk()
    disk.write_file(IDENTITY, text)
    with pytest.raises(StoreDamaged, match=IDENTITY):
        files(disk).broker_id()


def test_a_temporary_file_that_cannot_be_read_is_none() -> None:
    disk = FakeDisk()
    disk.write_file("brokerIdentity-temp", b"C#b#x#y")
    assert files(disk).temp() is None
    disk.write_file("brokerIdentity-temp", b"C#b#0#y")
    assert files(disk).temp() is None


def test_what_must_not_be_forgotten() -> None:
    disk = FakeDisk()
    files(disk).save_known(Known("inc", 4, 9))
    assert files(disk).known() == Known("inc", 4, 9)
    disk.write_file("brokerIdentity-state", b"{")
    with pytest.raises(StoreDamaged, match="brokerIdentity-state"):
        files(disk).known()


def test_an_epoch_from_a_forged_notice_is_forgotten_at_the_next_start() -> None:
    """Earlier versions believed notices, and wrote down what they said."""
    disk = FakeDisk()
    files(disk).save_known(Known("inc", 4, 2**31 - 1))
    assert files(disk).known() == Known("inc")
    files(disk).save_known(Known("inc", 4, EPOCH_MAX))
    assert files(disk).known() == Known("inc", 4, EPOCH_MAX)


def test_another_path_may_be_named() -> None:
    disk = FakeDisk()
    other = IdentityFiles(disk, "ids/me", "C", "b")
    other.save_id(1)
    assert disk.read_file("ids/me") == b"C#b#1"


@pytest.mark.parametrize("path", [IDENTITY, f"{IDENTITY}-sum", f"{IDENTITY}-state"])
def test_no_flipped_bit_makes_another_replica(path: str) -> None:
    disk = FakeDisk()
    files(disk).save_id(3)
    files(disk).save_known(Known("inc", 5, 7))
    data, refused = disk.files[path], 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        found = files(FakeDisk({**disk.files, path: bytes(flipped)}))
        try:
            told = found.broker_id(), found.known()
        except StoreDamaged:
            refused += 1
        else:
            assert told == (3, Known("inc", 5, 7)), f"bit {bit}"
    assert refused > 5 * len(data)


def test_no_flipped_bit_of_what_is_asked_for_or_of_the_boot_stops_a_start() -> None:
    """Another question is only asked; another boot only says that the machine may have failed."""
    disk = FakeDisk()
    files(disk).save_temp(Temp(1, "10.0.0.1:10911;17"))
    files(disk).save_boot("6f1c")
    for path in (f"{IDENTITY}-temp", f"{IDENTITY}-boot"):
        data = disk.files[path]
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            found = files(FakeDisk({**disk.files, path: bytes(flipped)}))
            told = found.temp()
            assert told is None or told.broker_id > 0, bit
            assert (found.last_boot() == "6f1c") is (path == f"{IDENTITY}-temp"), bit
