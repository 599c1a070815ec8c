"""Runtime changes kept in a file."""

import pytest
from tests.nameserver.world import FileDisk

from epochmq.base.errors import ConfigError, Refused
from epochmq.controller.config_file import ConfigFile
from epochmq.model.crc import crc32


def file(disk: FileDisk) -> ConfigFile:
    return ConfigFile("/etc/x/c.properties", disk)  # type: ignore[arg-type]


def test_changes_gather() -> None:
    disk = FileDisk()
    assert file(disk).load() == {}
    file(disk).save({"b": "1", "a": "2"})
    file(disk).save({"b": "3"})
    first, second = b"a=2\nb=1\n", b"a=2\nb=3\n"
    assert disk.files == {
        "c.properties": b"# crc32=%08x\n%s" % (crc32(second), second),
        "c.properties.bak": b"# crc32=%08x\n%s" % (crc32(first), first),
    }
    assert file(disk).load() == {"a": "2", "b": "3"}


def test_a_full_disk_refuses() -> None:
    disk = FileDisk()
    disk.full = True
    with pytest.raises(Refused, match="cannot be saved"):
        file(disk).save({"a": "1"})


def test_a_file_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"c\.properties"):
        file(FileDisk({"c.properties": b"\xff"})).load()
    with pytest.raises(ConfigError, match=r"c\.properties"):
        file(FileDisk({"c.properties": b"a=\\u12"})).load()


def test_without_a_disk_nothing_is_kept() -> None:
    nowhere = ConfigFile("/x", None)
    nowhere.save({"a": "1"})
    assert nowhere.load() == {}


def test_an_older_file_is_read_until_there_is_one_of_its_own() -> None:
    """Controllers of one user shared the file in the home directory."""
    home, own = FileDisk(), FileDisk()
    older = ConfigFile("/h/controller/controller.properties", home)  # type: ignore[arg-type]
    older.save({"scanInactiveMasterInterval": "700"})
    newer = ConfigFile("/data/controller.properties", own, older)  # type: ignore[arg-type]
    assert newer.load() == {"scanInactiveMasterInterval": "700"}
    newer.save({"notifyBrokerRoleChanged": "false"})
    both = {"scanInactiveMasterInterval": "700", "notifyBrokerRoleChanged": "false"}
    assert newer.load() == both
    assert older.load() == {"scanInactiveMasterInterval": "700"}, "the others still read it"


def test_a_file_of_a_person_or_of_rocketmq_is_believed() -> None:
    assert file(FileDisk({"c.properties": b"# mine\na=1\n"})).load() == {"a": "1"}


def test_every_flipped_bit_is_refused_or_changes_no_value() -> None:
    disk = FileDisk()
    file(disk).save({"notifyBrokerRoleChanged": "false", "scanInactiveMasterInterval": "700"})
    good, values = disk.files["c.properties"], file(disk).load()
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        try:
            found = file(FileDisk({"c.properties": bytes(bad)})).load()
        except ConfigError:
            continue
        more = found.keys() - values.keys()
        assert {key: found[key] for key in values} == values, bit
        assert not more or bit < 8, "a key that nobody knows is refused by the options"
