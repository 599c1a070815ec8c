"""Runtime changes kept in a file."""

import pytest
from tests.nameserver.world import FileDisk

from epochmq.base.errors import ConfigError, Refused
from epochmq.controller.config_file import ConfigFile


def file(disk: FileDisk) -> ConfigFile:
    return ConfigFile("/etc/x/c.properties", disk)  # type: ignore[arg-type]


def test_changes_gather() -> None:
    disk = FileDisk()
    assert file(disk).load() == {}
    file(disk).save({"b": "1", "a": "2"})
    file(disk).save({"b": "3"})
    assert disk.files == {"c.properties": b"a=2\nb=3\n"}
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
