"""Files of a table: written whole, found again, and errors that say what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from epochmq.base.errors import DiskFull, EnvironmentFault, UsageError
from epochmq.tables.storage import Storage, clear_errors, is_local, normal

FULL = """
import sys
from tests.spark.jobs.lake import FakeCluster, archive, content, topic
from epochmq.base.errors import DiskFull
from epochmq.spark.jobs.archive import ArchiveOptions
made = topic(queues=1, count=20)
made.add(3000, bytes(range(256)) * 4)
cluster = FakeCluster(made)
options = ArchiveOptions("", ("T",), sys.argv[1] + "/table", sys.argv[2], max_rows=500,
                         compression="none")
try:
    archive(options, cluster)
except DiskFull as error:
    print("FULL", error)
import os; os.remove(sys.argv[1] + "/ballast")
archive(options, cluster)
found = content(options.table)
assert set(found) == made.ids and set(found.values()) == {1}, len(found)
print("WHOLE")
"""


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_a_full_disk_stops_the_archive_and_it_goes_on_when_there_is_room(
    tmp_path: Path, format: str
) -> None:
    """On a real file system of 12 MB, 10 of which are taken at first."""
    script = (
        'mount -t tmpfs -o size=12m full "$1" && head -c 10000000 /dev/zero > "$1/ballast"'
        ' && exec "$2" -c "$3" "$1" "$4"'
    )
    argv = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    allowed = subprocess.run(["unshare", "--map-root-user", "--mount", "true"], check=False)
    if allowed.returncode:
        pytest.skip("this machine does not let us mount")
    done = subprocess.run(
        [*argv, str(tmp_path), sys.executable, FULL, format],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert "FULL no space is left at" in done.stdout, done.stdout + done.stderr
    assert "make room and run the same command again" in done.stdout
    assert "WHOLE" in done.stdout, done.stdout + done.stderr


def test_places() -> None:
    assert is_local("/a/b")
    assert is_local("file:///a")
    assert not is_local("s3://a/b")
    assert normal("s3://a/b/") == "s3://a/b"
    assert normal("file:///a/b") == "/a/b"
    assert Path(normal("a")).is_absolute()
    with pytest.raises(UsageError, match="a table needs a place"):
        normal(" ")


def test_files(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "t"))
    assert storage.is_empty()
    with storage.create("a/b.parquet") as out:
        out.write(b"12345")
    with storage.create("a/c.txt") as out:
        out.write(b"1")
    assert not storage.is_empty()
    assert storage.exists("a")
    assert not storage.exists("b")
    found = storage.find()
    assert {name: size for name, (size, _) in found.items()} == {"a/b.parquet": 5}
    assert found["a/b.parquet"][1] > 1e9
    storage.remove("a/b.parquet")
    storage.remove("a/b.parquet")
    assert storage.find() == {}


@pytest.mark.parametrize(
    "error", [OSError(28, "x"), OSError(122, "x"), RuntimeError("No space left on device")]
)
def test_a_full_disk_is_one_clear_line(error: Exception) -> None:
    with pytest.raises(DiskFull, match="no space is left at x: make room"), clear_errors("x"):
        raise error


def test_other_errors_pass() -> None:
    with pytest.raises(EnvironmentFault, match="not allowed to write"), clear_errors("x"):
        raise PermissionError(13, "no")
    with pytest.raises(ValueError, match="odd"), clear_errors("x"):
        raise ValueError("odd")


@pytest.mark.parametrize("error", [FileNotFoundError(), FileNotFoundError(2, "NoSuchBucket")])
def test_a_missing_bucket_is_named(error: Exception) -> None:
    said = "s3://b/x: there is no such bucket"
    with pytest.raises(EnvironmentFault, match=said), clear_errors("s3://b/x"):
        raise error
    with pytest.raises(FileNotFoundError), clear_errors("/here"):
        raise error
