"""The manifest: versions that are never changed, and what they add up to."""

import json
from pathlib import Path

import pytest

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.tables.archive_table import DataFile, TableConflict, TransactionMark
from epochmq.tables.parquet import FOLDER, WHOLE_EVERY, Manifest, TableVersion
from epochmq.tables.storage import Storage


def file(number: int) -> DataFile:
    return DataFile(f"p/{number}", 1, 2, "T", "2026-01-01", {"queueOffset": [number, number]})


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return Manifest(Storage(str(tmp_path)))


def test_versions_add_up(manifest: Manifest) -> None:
    state = manifest.append(TableVersion(-1, "a", "s"), None)
    count = WHOLE_EVERY * 2 + 5
    for number in range(count):
        mark = TransactionMark("a", number, {}, "r")
        state = manifest.append(state, mark, [file(number)], [f"p/{number - 3}"])
        assert manifest.load() == state
    assert set(state.files) == {f"p/{count - each}" for each in (1, 2, 3)}
    assert state.mark == TransactionMark("a", count - 1, {}, "r")
    assert manifest.load(TableVersion(-1, "a", "s")) == state


def test_a_version_is_written_once(manifest: Manifest) -> None:
    state = manifest.append(TableVersion(-1, "a", "s"), None)
    later = manifest.append(state, None, [file(1)])
    with pytest.raises(TableConflict, match="another archive writes to"):
        manifest.append(state, None, [file(2)])
    assert manifest.load(state) == later
    assert [each.name for each in Path(manifest.storage.root, FOLDER).glob(".*")] == []


def test_damage_is_said(manifest: Manifest, tmp_path: Path) -> None:
    assert not manifest.exists()
    (tmp_path / FOLDER).mkdir()
    with pytest.raises(UsageError, match="is empty"):
        manifest.load()
    version = tmp_path / FOLDER / f"{0:020d}.json"
    version.write_text("{")
    with pytest.raises(EnvironmentFault, match="is damaged"):
        manifest.load()
    version.write_text(json.dumps({"format": 2}))
    with pytest.raises(EnvironmentFault, match="has format 2, 1 is understood"):
        manifest.load()
    version.write_text(json.dumps({"format": 1, "add": [], "remove": []}))
    with pytest.raises(UsageError, match="has no beginning"):
        manifest.load()
