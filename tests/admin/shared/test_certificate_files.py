"""Files of certificates: whole, private, and never overwritten."""

from pathlib import Path

import pytest

from epochmq.admin.shared.certificate_files import HOSTS, make_files, tls_options
from epochmq.base.errors import ConfigError, UsageError


def test_the_authority_is_made_once(tmp_path: Path) -> None:
    first = make_files(tmp_path, "a", HOSTS, 1)
    assert sorted(path.name for path in first) == ["a.key", "a.pem", "ca.key", "ca.pem"]
    second = make_files(tmp_path, "b", ("10.0.0.1",), 1)
    assert sorted(path.name for path in second) == ["b.key", "b.pem"]
    named = {Path(value).name for value in tls_options(tmp_path, "b").values() if "/" in value}
    assert named == {"b.key", "b.pem", "ca.pem"}


@pytest.mark.parametrize("left", ["a.pem", "a.key"])
def test_a_file_that_is_there_stays(tmp_path: Path, left: str) -> None:
    (tmp_path / left).write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        make_files(tmp_path, "a", HOSTS, 1)
    assert [path.name for path in tmp_path.iterdir()] == [left]


def test_an_authority_whose_key_others_can_read_signs_nothing(tmp_path: Path) -> None:
    make_files(tmp_path, "a", HOSTS, 1)
    (tmp_path / "ca.key").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        make_files(tmp_path, "b", HOSTS, 1)
