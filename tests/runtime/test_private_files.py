"""Files with secrets: made for their owner only, and refused if others can read them."""

from pathlib import Path

import pytest

from epochmq.base.errors import ConfigError
from epochmq.runtime.private_files import PRIVATE_BYTES_MAX, create_private, read_private


def test_a_made_file_is_private_and_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "key")
    create_private(path, b"one", "the key")
    assert read_private(path, "the key") == b"one"
    assert Path(path).stat().st_mode & 0o777 == 0o600
    create_private(path, b"two", "the key")
    assert read_private(path, "the key") == b"one"
    assert [each.name for each in Path(path).parent.iterdir()] == ["key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o610, 0o666])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600") as error:
        read_private(str(path), "the key")
    assert "secret" not in str(error.value)


def test_what_cannot_be_read_or_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the key .*No such file"):
        read_private(str(tmp_path / "none"), "the key")
    long = tmp_path / "long"
    long.write_bytes(b"x" * (PRIVATE_BYTES_MAX + 1))
    long.chmod(0o600)
    with pytest.raises(ConfigError, match="longer than"):
        read_private(str(long), "the key")
    with pytest.raises(ConfigError, match="cannot make the key"):
        create_private(str(long / "key"), b"x", "the key")
