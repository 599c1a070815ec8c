"""The golden dialogues, word for word; each is a story with a name."""

import os
from pathlib import Path

import pytest
from tests.raft.dialogue import play

FILES = sorted((Path(__file__).parent / "dialogues").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dialogue(path: Path) -> None:
    text = path.read_text()
    answered = play(text)
    if os.environ.get("EPOCHMQ_REWRITE"):
        path.write_text(answered)
    assert answered == text


def test_there_are_many() -> None:
    assert len(FILES) >= 25
