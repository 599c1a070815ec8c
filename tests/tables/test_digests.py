"""Digest files: written once, merged, and noticed when they change."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from epochmq.base.errors import StoreDamaged
from epochmq.tables.archive_table import DataFile
from epochmq.tables.digests import FOLDER, MERGED_AT, TableDigests
from epochmq.tables.storage import Storage


@pytest.fixture
def digests(tmp_path: Path) -> TableDigests:
    return TableDigests(Storage(str(tmp_path)), "metadata", "data")


def write(digests: TableDigests, path: str, text: bytes = b"x") -> str:
    with digests.storage.create(path) as file:
        file.write(text)
    return hashlib.sha256(text).hexdigest()


def names(digests: TableDigests) -> list[str]:
    return sorted(digests.storage.sizes(FOLDER))


def test_sha256sum_checks_a_table(digests: TableDigests, tmp_path: Path) -> None:
    text = write(digests, "data/a.parquet", b"rows")
    digests.add([DataFile("a.parquet", 1, 4, "T", "d", {}, text)])
    write(digests, "metadata/1.json")
    digests.add_metadata()
    command = ["sha256sum", "-c", *(f"{FOLDER}/{name}" for name in names(digests))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["data/a.parquet: OK", "metadata/1.json: OK"]


def test_metadata_gets_its_digest_once_and_changes_are_found(digests: TableDigests) -> None:
    for name in ("1.json", "_hint.json", ".draft.json", "2.avro", "version.text"):
        write(digests, f"metadata/{name}")
    digests.add_metadata()
    digests.add_metadata()
    assert sorted(digests.load()) == ["metadata/1.json", "metadata/2.avro"]
    assert len(names(digests)) == 1
    digests.check_metadata()
    write(digests, "metadata/2.avro", b"y")
    assert digests.changed_metadata() == ["metadata/2.avro"]
    with pytest.raises(StoreDamaged, match=r"1 metadata files are not .*: metadata/2\.avro"):
        digests.check_metadata()
    digests.storage.remove("metadata/2.avro")
    digests.check_metadata()


def test_many_small_files_become_one(digests: TableDigests) -> None:
    wanted = {}
    for number in range(MERGED_AT - 1):
        wanted[f"data/{number}"] = f"{number:064x}"
        digests.write({f"data/{number}": f"{number:064x}"})
    digests.merge_small()
    assert len(names(digests)) == MERGED_AT - 1
    digests.write({"data/last": "f" * 64})
    digests.merge_small()
    assert len(names(digests)) == 1
    assert digests.load() == {**wanted, "data/last": "f" * 64}
    digests.forget({"data/3", "data/last"})
    assert digests.load() == {"data/3": f"{3:064x}", "data/last": "f" * 64}
    digests.forget({"data/3", "data/last"})
    assert len(names(digests)) == 1, "a merge that changes nothing keeps the file"
    digests.forget(())
    assert names(digests) == []


def test_a_process_that_dies_while_it_writes_leaves_no_torn_digests(
    digests: TableDigests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    digests.write({"data/1": "0" * 64})
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, die)
            with pytest.raises(KeyboardInterrupt):
                digests.write({"data/2": "1" * 64})
        assert digests.read() == ({"data/1": "0" * 64}, [])
    digests.write({"data/2": "1" * 64})
    assert len(digests.load()) == 2


def test_a_changed_digest_file_is_named_and_never_merged_away(
    digests: TableDigests, tmp_path: Path
) -> None:
    digests.write({"data/1": "0" * 64})
    (changed,) = names(digests)
    digests.write({"data/2": "1" * 64})
    path = tmp_path / FOLDER / changed
    path.write_bytes(path.read_bytes().replace(b"data/1", b"data/3"))
    with pytest.raises(StoreDamaged, match=changed):
        digests.load()
    digests.forget({"data/1", "data/2"})
    assert digests.read() == ({"data/2": "1" * 64}, [f"{FOLDER}/{changed}"])
