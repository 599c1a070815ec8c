"""Files that a running server is asked to read."""

import os
from pathlib import Path

import pytest

from epochmq.base import limits
from epochmq.base.errors import ConfigError
from epochmq.runtime.config_text import path_below, read_properties, real_paths


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
