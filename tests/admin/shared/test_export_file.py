"""Files that `mqadmin` writes."""

import tempfile
from pathlib import Path

import pytest

from epochmq.admin.shared.export_file import own_directory, plain_name, write_export
from epochmq.base.errors import EnvironmentFault


def test_a_directory_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    directory = own_directory("export")
    assert directory == own_directory("export")
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.rmdir()
    directory.symlink_to("/")
    with pytest.raises(EnvironmentFault, match="not a directory of yours"):
        own_directory("export")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("127.0.0.1@7#8", "127.0.0.1@7#8"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("..", "_"),
        ("", "_"),
        ("a\x00b\nc", "a_b_c"),
        ("x" * 300, "x" * 200),
    ],
)
def test_what_a_stranger_chose_is_no_path(text: str, name: str) -> None:
    assert plain_name(text) == name


def test_a_file_and_its_directory(tmp_path: Path) -> None:
    write_export(tmp_path / "a" / "b", "text")
    assert (tmp_path / "a" / "b").read_text() == "text"
    with pytest.raises(EnvironmentFault, match="cannot be written: "):
        write_export(tmp_path / "a" / "b" / "c", "text")
