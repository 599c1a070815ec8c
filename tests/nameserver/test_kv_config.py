import json

import pytest
from tests.nameserver.world import FileDisk

from epochmq.base import limits
from epochmq.base.errors import Refused, StoreDamaged
from epochmq.nameserver.kv_config import KvConfig


def config(disk: FileDisk) -> KvConfig:
    kv = KvConfig(disk, "kv.json")  # type: ignore[arg-type]
    kv.load()
    return kv


def test_every_change_is_in_the_file_in_upstreams_shape() -> None:
    disk = FileDisk()
    kv = config(disk)
    kv.put("ns", "k", "v")
    kv.put("ns", "k2", "ä")
    kv.put("other", "k", "x")
    assert json.loads(disk.files["kv.json"]) == {
        "configTable": {"ns": {"k": "v", "k2": "ä"}, "other": {"k": "x"}}
    }
    kv.delete("ns", "k")
    again = config(disk)
    assert again.get("ns", "k") is None
    assert again.list("ns") == {"k2": "ä"}
    assert again.get("other", "k") == "x"
    assert again.list("none") is None


def test_deleting_what_is_not_there_changes_nothing() -> None:
    disk = FileDisk()
    config(disk).delete("ns", "k")
    assert disk.files == {}


def test_a_file_of_an_older_or_foreign_writer_is_read() -> None:
    assert config(FileDisk({"kv.json": b""})).list("ns") is None
    assert config(FileDisk({"kv.json": b'{"x":1}'})).list("ns") is None
    fastjson = b'{"configTable":{"ns":{"k":"v"}} }'
    assert config(FileDisk({"kv.json": fastjson})).get("ns", "k") == "v"


def test_a_damaged_file_is_one_clear_error() -> None:
    with pytest.raises(StoreDamaged, match=r"kv.json cannot be read .* repair it or move it away"):
        config(FileDisk({"kv.json": b'{"configTable":[1'}))


def test_what_cannot_be_saved_is_not_changed() -> None:
    disk = FileDisk()
    kv = config(disk)
    kv.put("ns", "k", "v")
    disk.full = True
    with pytest.raises(Refused, match=r"not changed.*no space left"):
        kv.put("ns", "k", "w")
    with pytest.raises(Refused):
        kv.delete("ns", "k")
    assert kv.get("ns", "k") == "v"


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KV_ENTRIES_MAX", 2)
    kv = config(FileDisk())
    with pytest.raises(Refused, match="bytes in one entry"):
        kv.put("ns", "k", "v" * limits.KV_ENTRY_BYTES_MAX)
    kv.put("a", "k", "1")
    kv.put("b", "k", "1")
    with pytest.raises(Refused, match="more than 2 entries"):
        kv.put("c", "k", "1")
    kv.put("b", "k", "2")
    assert kv.get("b", "k") == "2"
