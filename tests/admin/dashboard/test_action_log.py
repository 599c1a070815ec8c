"""The record of actions: what is written, read back, bounded."""

import json
from pathlib import Path

import pytest

from epochmq.admin.dashboard import action_log
from epochmq.admin.dashboard.action_log import SHOWN_MAX, ActionLog
from epochmq.base.errors import EnvironmentFault


def test_lines_of_one_cluster_the_newest_first(tmp_path: Path) -> None:
    log = ActionLog(tmp_path / "actions.jsonl")
    assert log.latest("a") == []
    log.write("ann", "127.0.0.1", "a", "one", "begun")
    log.write(None, "127.0.0.1", "b", "two", "begun")
    log.write("ann", "127.0.0.1", "a", "one", "done")
    assert [row["result"] for row in log.latest("a")] == ["done", "begun"]
    assert log.latest("b")[0]["user"] is None


def test_texts_of_strangers_are_cut_and_stay_in_their_line(tmp_path: Path) -> None:
    path = tmp_path / "actions.jsonl"
    ActionLog(path).write("u", "p", "a", "x\n" * 1_000, "r" * 1_000)
    (line,) = path.read_text().splitlines()
    assert len(json.loads(line)["action"]) == 300
    assert len(json.loads(line)["result"]) == 300


@pytest.mark.parametrize("damage", [b"{torn", b"\xff\xfe\n", b"[]\n", b"null\n", b"1\n"])
def test_damaged_lines_are_skipped(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "actions.jsonl"
    log = ActionLog(path)
    log.write("u", "p", "a", "one", "done")
    with path.open("ab") as file:
        file.write(damage)
    assert [row["action"] for row in log.latest("a")] == ["one"]


def test_the_file_and_the_answer_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action_log, "FILE_BYTES_MAX", 40_000)
    path = tmp_path / "actions.jsonl"
    log = ActionLog(path)
    for number in range(1_000):
        log.write("u", "p", "a", f"action {number}", "done")
    assert path.stat().st_size < 41_000
    assert sorted(each.name for each in tmp_path.iterdir()) == ["actions.jsonl", "actions.jsonl.1"]
    assert len(log.latest("a")) <= SHOWN_MAX
    assert log.latest("a")[0]["action"] == "action 999"


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    log = ActionLog(tmp_path / "no such directory" / "actions.jsonl")
    with pytest.raises(EnvironmentFault, match="cannot write"):
        log.write("u", "p", "a", "one", "begun")
