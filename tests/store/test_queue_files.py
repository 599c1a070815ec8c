"""Few descriptors for many files."""

from random import Random

import pytest
from sim.kernel.disk import SimDisk, SimFile

from epochmq.base.errors import OutOfResources
from epochmq.store import queue_files
from epochmq.store.queue_files import QueueFiles


def test_the_least_used_is_closed() -> None:
    files = QueueFiles(SimDisk(), 2)
    one = files.get("a/1", 10)
    files.get("a/2", 10)
    assert files.get("a/1") is one
    files.get("a/3", 10)
    assert files.get("a/1") is one
    assert set(files._files) == {"a/3", "a/1"}
    assert files.read("a/2", 0, 99) == bytes(10)
    assert files.read("none", 0, 9) == b""


def test_forgotten_before_removal() -> None:
    files = QueueFiles(SimDisk(), 9)
    for path in ("a/1", "a/2", "ab/1"):
        files.get(path, 10).write(0, b"x")
        files.unsynced.add(path)
    files.forget("a")
    assert (set(files._files), files.unsynced) == ({"ab/1"}, {"ab/1"})
    files.close()
    assert files._files == {}


def test_an_existing_file_is_not_made_again() -> None:
    disk = SimDisk()
    disk.open("f", create_size=20).write(0, b"x")
    assert QueueFiles(disk, 1).get("f", 10).size == 20


def test_where_no_descriptor_is_left_the_open_files_give_theirs_up() -> None:
    disk = FewDescriptors()
    files = QueueFiles(disk, 99)
    for number in range(3):
        files.get(f"a/{number}", 10).write(0, b"%d" % number)
    disk.descriptors = 0
    files.get("a/3", 10)
    assert list(files._files) == ["a/3"]
    assert files.read("a/1", 0, 1) == b"1"


def test_without_a_file_to_close_it_is_said() -> None:
    disk = FewDescriptors()
    disk.descriptors = 0
    with pytest.raises(OutOfResources):
        QueueFiles(disk, 99).get("a/1", 10)


class FewDescriptors(SimDisk):
    """Opens fail once, when none are left."""

    descriptors = 99

    def open(self, path: str, *, create_size: int | None = None) -> SimFile:
        if self.descriptors == 0:
            self.descriptors = 99
            raise OutOfResources(f"cannot open {path}: too many open files")
        return super().open(path, create_size=create_size)


@pytest.mark.parametrize("seed", range(5))
def test_what_was_read_ahead_is_what_the_file_has(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_files, "BLOCK_BYTES", 16)
    monkeypatch.setattr(queue_files, "BLOCKS_MAX", 3)
    rng = Random(f"read ahead {seed}")
    disk = SimDisk()
    files = QueueFiles(disk, 2)
    written = {f"a/{number}": bytearray(100) for number in range(3)}
    for path in written:
        files.write(path, 0, b"", 100)
    for _ in range(2000):
        path = rng.choice(list(written))
        offset, size = rng.randrange(100), rng.randint(0, 40)
        if rng.random() < 0.3:
            data = rng.randbytes(min(size, 100 - offset))
            files.write(path, offset, data)
            written[path][offset : offset + len(data)] = data
            assert path in files.unsynced
        elif rng.random() < 0.02:
            files.forget(path)
            disk.remove(path)
            written[path] = bytearray(100)
            files.write(path, 0, b"", 100)
        else:
            found = files.read_ahead(path, offset, size)
            assert found == written[path][offset : offset + size], (path, offset, size)
        assert len(files._blocks) <= 3
    files.close()
    assert not files._blocks


def test_a_file_that_is_not_there_is_not_remembered() -> None:
    files = QueueFiles(SimDisk(), 2)
    assert files.read_ahead("a/1", 0, 10) == b""
    files.get("a/1", 10)
    assert files.read_ahead("a/1", 0, 10) == bytes(10)
