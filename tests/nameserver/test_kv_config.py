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
    kv.save()
    assert json.loads(disk.files["kv.json"]) == {
        "configTable": {"ns": {"k": "v", "k2": "ä"}, "other": {"k": "x"}}
    }
    assert kv.delete("ns", "k")
    kv.save()
    again = config(disk)
    assert again.get("ns", "k") is None
    assert again.list("ns") == {"k2": "ä"}
    assert again.get("other", "k") == "x"
    assert again.list("none") is None


def test_deleting_what_is_not_there_changes_nothing() -> None:
    assert not config(FileDisk()).delete("ns", "k")


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
    kv.save()
    disk.full = True
    kv.put("ns", "k", "w")
    with pytest.raises(Refused, match=r"not changed.*no space left"):
        kv.save()
    kv.delete("ns", "k")
    with pytest.raises(Refused):
        kv.save()
    assert kv.get("ns", "k") == "v"


def test_what_was_never_saved_is_not_there_after_a_failure() -> None:
    disk = FileDisk()
    kv = config(disk)
    disk.full = True
    kv.put("ns", "k", "v")
    with pytest.raises(Refused):
        kv.save()
    assert kv.list("ns") is None


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KV_BYTES_MAX", 20)
    kv = config(FileDisk())
    with pytest.raises(Refused, match="bytes in one entry"):
        kv.put("ns", "k", "v" * limits.KV_ENTRY_BYTES_MAX)
    kv.put("a", "k", "v" * 8)
    kv.put("b", "k", "ä" * 4)
    with pytest.raises(Refused, match="more than 20 bytes in all"):
        kv.put("c", "", "")
    kv.put("b", "k", "x" * 8)
    kv.put("b", "k", "x")
    kv.put("c", "k", "12345")
    assert kv.get("b", "k") == "x"
    kv.delete("a", "k")
    kv.put("d", "k", "1" * 8)


def test_a_file_that_is_larger_than_the_bound_is_read_and_may_shrink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "KV_BYTES_MAX", 4)
    kv = config(FileDisk({"kv.json": b'{"configTable":{"ns":{"k":"123456"}}}'}))
    kv.put("ns", "k", "12345")
    with pytest.raises(Refused):
        kv.put("ns", "k", "1234567")
