import json
import logging

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
    content = json.loads(disk.files["kv.json"])
    assert content.pop("epochmqSaved").startswith("0-0-")
    assert content == {"configTable": {"ns": {"k": "v", "k2": "ä"}, "other": {"k": "x"}}}
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
    message = r"key-value configuration: kv.json: .*; restore the file from another name server, or"
    with pytest.raises(StoreDamaged, match=message):
        config(FileDisk({"kv.json": b'{"configTable":[1'}))


def two_saves() -> dict[str, bytes]:
    """A file that was saved twice, and its `.bak`."""
    disk = FileDisk()
    kv = config(disk)
    kv.put("ns", "k", "v")
    kv.save()
    kv.put("ns", "k2", "1ä")
    kv.save()
    assert set(disk.files) == {"kv.json", "kv.json.bak"}
    return disk.files


def test_the_backup_is_used_with_an_error_line(caplog: pytest.LogCaptureFixture) -> None:
    files = two_saves()
    files["kv.json"] = cut = files["kv.json"][:-5]
    disk = FileDisk(files)
    assert config(disk).list("ns") == {"k": "v"}
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "kv.json is damaged" in record.getMessage()
    assert "was replaced by kv.json.bak: the changes after it are lost" in record.getMessage()
    assert disk.files["kv.json.damaged"] == cut
    assert disk.files["kv.json"] == disk.files["kv.json.bak"]
    caplog.clear()
    assert config(disk).list("ns") == {"k": "v"}
    assert not caplog.records, "the file is whole again"


def test_a_file_of_rocketmq_without_checksum_has_a_backup_too() -> None:
    java = b'{"configTable":{"ns":{"k":"v"}}}'
    assert config(FileDisk({"kv.json": java[:20], "kv.json.bak": java})).get("ns", "k") == "v"
    for files in ({"kv.json.bak": java}, {"kv.json": b"", "kv.json.bak": java}):
        disk = FileDisk(files)
        assert config(disk).get("ns", "k") == "v"
        assert disk.files["kv.json.bak"] == java, "an empty file never becomes the backup"


def test_an_edited_file_is_refused_until_its_checksum_is_removed() -> None:
    files = two_saves()
    files["kv.json"] = text = files["kv.json"].replace(b'"v"', b'"w"')
    with pytest.raises(StoreDamaged, match=r"kv.json does not match its checksum .* remove the"):
        config(FileDisk(dict(files)))
    files["kv.json"] = text[: text.rindex(b",")] + b"}"
    assert config(FileDisk(files)).get("ns", "k") == "w"


@pytest.mark.parametrize("backup", [True, False], ids=["backup", "alone"])
def test_no_flipped_bit_changes_the_table_in_silence(
    caplog: pytest.LogCaptureFixture, backup: bool
) -> None:
    """A flip in the field's own name leaves the content right, and a file without a checksum."""
    files = two_saves()
    data, wanted = files["kv.json"], config(FileDisk(dict(files))).list("ns")
    kept = {"kv.json.bak": files["kv.json.bak"]} if backup else {}
    refused = replaced = 0
    for at in range(len(data)):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            flipped = bytearray(data)
            flipped[at] ^= mask
            caplog.clear()
            try:
                found = config(FileDisk({**kept, "kv.json": bytes(flipped)})).list("ns")
            except StoreDamaged:
                refused += 1
                continue
            if caplog.records:
                replaced += 1
                assert (backup, found) == (True, {"k": "v"}), (at, mask)
                assert [record.levelno for record in caplog.records] == [logging.ERROR]
            else:
                assert found == wanted, (at, mask)
    assert refused > 2 * len(data)
    assert (replaced > 2 * len(data)) is backup
    assert refused + replaced > 6 * len(data)


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
