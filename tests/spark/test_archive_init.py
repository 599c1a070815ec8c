"""An archive of `epochmq pipeline package` unpacks itself, once, where nobody else can write."""

import json
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epochmq.spark import archive_init
from epochmq.spark.archive_init import CONTENTS, MANIFEST, UNPACK_DIR, platform_of_python, unpack


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(UNPACK_DIR, str(tmp_path / "unpacked"))
    return tmp_path / "unpacked" / f"epochmq-{os.getuid()}"


def archive(place: Path, digest: str = "d1", **platform: str) -> str:
    """A small archive, built for `platform`, by default for this Python."""
    made = place / f"{digest}.zip"
    with zipfile.ZipFile(made, "w") as file:
        manifest = {"digest": digest, "platform": platform_of_python() | platform}
        file.writestr(MANIFEST, json.dumps(manifest))
        file.writestr("epochmq/__init__.py", Path(archive_init.__file__).read_text())
        file.writestr(f"{CONTENTS}code/epochmq/__init__.py", "__version__ = 'unpacked'\n")
        file.writestr(f"{CONTENTS}packages/other.py", "found = 1\n")
    return str(made)


def test_an_import_unpacks_once_and_comes_from_the_directory(tmp_path: Path, home: Path) -> None:
    code = "import epochmq, other; print(epochmq.__version__, epochmq.__file__, other.found)"
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": archive(tmp_path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        where = home / "d1" / "code" / "epochmq" / "__init__.py"
        assert done.stdout == f"unpacked {where} 1\n"
    assert [path.name for path in home.iterdir()] == ["d1"]


def test_processes_that_unpack_at_the_same_time_share_one_directory(
    tmp_path: Path, home: Path
) -> None:
    made = archive(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(unpack, [made] * 32)) == {home / "d1"}
    assert [path.name for path in home.iterdir()] == ["d1"]


def test_other_contents_get_another_directory(tmp_path: Path, home: Path) -> None:
    assert unpack(archive(tmp_path)) != unpack(archive(tmp_path, "d2"))
    assert sorted(path.name for path in home.iterdir()) == ["d1", "d2"]


@pytest.mark.parametrize("part", ["python", "system", "machine"])
def test_an_archive_for_another_platform_says_what_to_do(
    tmp_path: Path, home: Path, part: str
) -> None:
    with pytest.raises(ImportError, match=r"built for .*other.*but Python is .*pipeline package"):
        unpack(archive(tmp_path, **{part: "other"}))
    assert not home.exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_can_change_is_refused(
    tmp_path: Path, home: Path, mode: int
) -> None:
    """A stranger who puts modules there would run code as this user."""
    home.mkdir(parents=True)
    home.chmod(mode)
    with pytest.raises(ImportError, match="only this user can change"):
        unpack(archive(tmp_path))


def test_a_link_to_another_directory_is_refused(tmp_path: Path, home: Path) -> None:
    home.parent.mkdir(parents=True)
    home.symlink_to(tmp_path)
    with pytest.raises(ImportError, match="only this user can change"):
        unpack(archive(tmp_path))


def test_a_failed_unpacking_leaves_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    made = archive(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "extract", full)
        with pytest.raises(OSError, match="No space left"):
            unpack(made)
    assert list(home.iterdir()) == []
    assert unpack(made) == home / "d1"
