"""Where a process finds its credentials."""

from pathlib import Path

import pytest

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import ConfigError
from epochmq.client.aio.client_credentials import credentials_of

ENV = {"EPOCHMQ_ACCESS_KEY": "alice", "EPOCHMQ_SECRET_KEY": "s"}


def written(folder: Path, text: bytes) -> str:
    path = folder / "credentials"
    path.write_bytes(text)
    path.chmod(0o600)
    return str(path)


def test_the_environment() -> None:
    assert credentials_of({}) is None
    assert credentials_of(ENV) == Credentials("alice", "s")
    for name in ENV:
        with pytest.raises(ConfigError, match="need each other"):
            credentials_of({name: "x"})


def test_a_file_goes_first(tmp_path: Path) -> None:
    path = written(tmp_path, b"accessKey=bob\nsecretKey=t\nsecurityToken=u\n")
    found = Credentials("bob", "t", "u")
    assert credentials_of(ENV, path) == found
    assert credentials_of({**ENV, "EPOCHMQ_CREDENTIALS": path}) == found


@pytest.mark.parametrize("text", [b"accessKey=bob\n", b"", b"secretKey=hunter2\n", b"\xff\xfe"])
def test_unusable_files(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(ConfigError) as error:
        credentials_of({}, written(tmp_path, text))
    assert "hunter2" not in str(error.value)
