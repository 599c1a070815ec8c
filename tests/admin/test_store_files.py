"""What `epochmq store` opens."""

from pathlib import Path

import pytest

from epochmq.admin.store_command import open_files
from epochmq.base.errors import NotFound


def test_log_files_have_the_size_that_they_have(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(8192))
    disk, options, _types = open_files(tmp_path, None)
    assert (disk.root, options.commit_log_file_bytes) == (str(tmp_path), 8192)


def test_no_log_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no commit log"):
        open_files(tmp_path, None)
