"""Files that a running server is asked to read."""

import os
from pathlib import Path

import pytest

from epochmq.base import limits
from epochmq.base.errors import ConfigError
from epochmq.runtime.config_text import path_below, read_properties, real_paths, store_paths


def test_properties(tmp_path: Path) -> None:
    file = tmp_path / "b.properties"
    file.write_text("# a broker\nbrokerName = a\n")
    assert read_properties(str(file)) == {"brokerName": "a"}


def test_every_refusal_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_bytes(b"#" * (limits.CONFIG_BODY_BYTES_MAX + 1))
    (tmp_path / "odd").write_text("a=\\uZZZZ\n")
    os.mkfifo(tmp_path / "pipe")
    for name in ("none", "latin", "long", "pipe", "odd", "."):
        path = str(tmp_path / name)
        with pytest.raises(ConfigError) as error:
            read_properties(path)
        assert path in str(error.value)


def test_real_paths(tmp_path: Path) -> None:
    os.symlink(tmp_path / "there", tmp_path / "link")
    assert real_paths([str(tmp_path / "link" / "x")]) == (str(tmp_path / "there" / "x"),)
    assert path_below(str(tmp_path / "link"), [str(tmp_path)]) == str(tmp_path / "there")
    assert path_below(str(tmp_path / "link"), [str(tmp_path / "elsewhere")]) is None
    assert path_below("/anything", ["/"]) == "/anything"


def log_in(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(b"x")


@pytest.mark.parametrize("root", ["store-0", "./store-0", "../here/store-0", None])
@pytest.mark.parametrize("log", ["store-0/commitlog", "./store-0/commitlog", "elsewhere/log"])
def test_relative_paths_are_taken_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str | None, log: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    root = root or str(here / "store-0")
    wanted, former = here / log, here / "store-0" / log
    assert store_paths(root, log) == (str(here / "store-0"), str(wanted), "")
    assert store_paths(root, "") == (str(here / "store-0"), "", "")
    assert store_paths(root, str(wanted))[1] == str(wanted)
    log_in(former)
    found = store_paths(root, log)
    assert found[1] == str(former)
    assert str(wanted) in found[2]
    log_in(wanted)
    with pytest.raises(ConfigError, match="both hold a log"):
        store_paths(root, log)
    assert store_paths(root, str(wanted))[1:] == (str(wanted), "")


def test_several_logs_are_left_to_the_options() -> None:
    assert store_paths("/r", "a,b")[1] == "a,b"
