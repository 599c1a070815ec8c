"""Comparing the replicas' files."""

from pathlib import Path

from examples.demo.failovers import compare


def lay(directory: Path, *logs: bytes) -> None:
    for number, log in enumerate(logs):
        folder = directory / f"store-{number}" / "commitlog"
        folder.mkdir(parents=True)
        for start in range(0, len(log), 10):
            (folder / f"{start:020}").write_bytes(log[start : start + 10].ljust(10, b"\0"))


def test_the_same(tmp_path: Path) -> None:
    lay(tmp_path, b"a" * 25, b"a" * 25 + b"more")
    assert compare(tmp_path, 2, 25) == (25, None)
    assert compare(tmp_path, 2, 12) == (12, None)


def test_a_difference_below_the_end_and_beyond_it(tmp_path: Path) -> None:
    lay(tmp_path, b"a" * 20 + b"x", b"a" * 20 + b"y")
    assert compare(tmp_path, 2, 20) == (20, None)
    assert compare(tmp_path, 2, 21) == (20, "the replicas' logs differ between 20 and 21")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    lay(tmp_path, b"a" * 20, b"a" * 10)
    compared, problem = compare(tmp_path, 2, 20)
    assert (compared, problem is None) == (10, False)
