"""Offsets of a broadcasting member survive a restart, and a broken file is named."""

from pathlib import Path

import pytest

from epochmq.base.errors import ConfigError
from epochmq.client.aio.local_offsets import LocalOffsets
from epochmq.model.topic import MessageQueue

Q0, Q1 = (MessageQueue("t", "b", index) for index in (0, 1))


def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    first = LocalOffsets(tmp_path / "new", "%g|")
    assert first.get(Q0) is None
    first.save({})
    first.save({Q0: 5})
    first.save({Q1: 7})
    again = LocalOffsets(tmp_path / "new", "%g|")
    assert (again.get(Q0), again.get(Q1)) == (5, 7)


@pytest.mark.parametrize("text", ["not json", "[1]", '{"a": "x"}'])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.json").write_text(text)
    with pytest.raises(ConfigError, match=r"g\.json is not readable"):
        LocalOffsets(tmp_path, "g").get(Q0)
