"""The archive for clusters: what is in it, and that it is the same each time."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import epochmq
from epochmq.base.errors import UsageError
from epochmq.spark.archive_init import MANIFEST, UNPACK_DIR, platform_of_python
from epochmq.spark.cluster_package import build, default_name


def test_the_archive_holds_code_packages_and_a_manifest(tmp_path: Path) -> None:
    built = build(tmp_path / "epochmq.zip")
    assert built.size_bytes == built.path.stat().st_size
    with zipfile.ZipFile(built.path) as archive:
        names = set(archive.namelist())
        manifest = json.loads(archive.read(MANIFEST))
    assert {
        "epochmq/__init__.py",
        "pyspark_rocketmq/__init__.py",
        "pyspark_rocketmq_log/__init__.py",
        "contents/code/epochmq/spark/source.py",
        "contents/packages/msgspec/__init__.py",
    } <= names
    assert any(name.endswith("_native.so") for name in names) == built.native
    assert not [name for name in names if "__pycache__" in name or name.endswith((".c", ".pyc"))]
    assert manifest["epochmq"] == epochmq.__version__
    assert manifest["platform"] == platform_of_python()
    assert manifest["distributions"] == built.distributions
    assert "msgspec" in built.distributions


def test_the_same_contents_make_the_same_archive(tmp_path: Path) -> None:
    first, second = build(tmp_path / "1.zip"), build(tmp_path / "2.zip")
    assert first.path.read_bytes() == second.path.read_bytes()


def test_python_without_any_package_imports_it(tmp_path: Path) -> None:
    """`-I -S`: neither the environment's packages nor the variables of this process."""
    built = build(tmp_path / "epochmq.zip")
    code = (
        f"import sys; sys.path.insert(0, {str(built.path)!r}); import epochmq.client.aio as c;"
        "import epochmq.wire.command, msgspec; print(c.__file__, msgspec.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        env={**os.environ, UNPACK_DIR: str(tmp_path / "unpacked")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert all("/unpacked/" in path for path in done.stdout.split())


def test_further_distributions(tmp_path: Path) -> None:
    built = build(tmp_path / "epochmq.zip", ["click"])
    assert "click" in built.distributions
    with zipfile.ZipFile(built.path) as archive:
        assert "contents/packages/click/core.py" in archive.namelist()
    with pytest.raises(UsageError, match="no-such-thing is not installed here"):
        build(tmp_path / "other.zip", ["no-such-thing"])
    assert not (tmp_path / "other.zip").exists()


def test_a_name_that_spark_ignores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"name it \.zip"):
        build(tmp_path / "epochmq.whl")
    assert default_name().endswith(".zip")


def test_an_older_archive_stays_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "epochmq.zip"
    path.write_text("older")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space left"):
        build(path)
    assert path.read_text() == "older"
    assert [each.name for each in tmp_path.iterdir()] == ["epochmq.zip"]
