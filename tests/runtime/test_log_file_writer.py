"""Log bytes at their places in files of one size."""

import errno
from pathlib import Path

import pytest

from epochmq.base.errors import DiskFull, EnvironmentFault
from epochmq.runtime.log_file_writer import LogFileWriter


def files(directory: Path) -> dict[int, bytes]:
    return {int(path.name): path.read_bytes() for path in directory.iterdir()}


def test_bytes_lie_at_their_places_across_files(tmp_path: Path) -> None:
    writer = LogFileWriter(tmp_path)
    writer.write(15, b"abcdefgh", 10)
    writer.write(23, memoryview(b"ij"), 10)
    writer.sync()
    writer.sync()
    writer.write(40, b"k", 10)
    writer.sync()
    assert files(tmp_path) == {
        10: bytes(5) + b"abcde",
        20: b"fghij" + bytes(5),
        40: b"k" + bytes(9),
    }
    assert sorted(len(path.name) for path in tmp_path.iterdir()) == [20, 20, 20]


def test_what_is_there_stays(tmp_path: Path) -> None:
    for at, data in ((0, b"ab"), (2, b"cd")):
        writer = LogFileWriter(tmp_path)
        writer.write(at, data, 4)
        writer.sync()
    assert files(tmp_path) == {0: b"abcd"}


@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "fdatasync"])
@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EIO, EnvironmentFault)]
)
def test_errors_of_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    kind: type[EnvironmentFault],
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, "it fails")

    monkeypatch.setattr(f"os.{call}", fail)
    writer = LogFileWriter(tmp_path)

    def write() -> None:
        writer.write(0, b"ab", 4)
        writer.sync()

    with pytest.raises(kind, match="it fails") as caught:
        write()
    assert type(caught.value) is kind
    assert str(tmp_path) in str(caught.value)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"cannot make .*none"):
        LogFileWriter(tmp_path / "none").write(0, b"a", 4)
