"""The language of attribute changes, and what may be changed when."""

import pytest

from epochmq.base.errors import Refused
from epochmq.broker.state.topic_table import ATTRIBUTES_MAX, alter, parse_changes


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (None, {}),
        ("", {}),
        ("+message.type=FIFO", {"+message.type": "FIFO"}),
        ("+a=1, -b", {"+a": "1", "-b": ""}),
        ("+a=1=2", {"+a": "1=2"}),
    ],
)
def test_parse(text: str | None, changes: dict[str, str]) -> None:
    assert parse_changes(text) == changes


@pytest.mark.parametrize("text", ["a=1", "+a", "-a=1", "=", "+=1", "-", "+a=1,+a=2", "+a=1,"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_changes(text)
    assert caught.value.code == 1


def test_parse_is_bounded() -> None:
    with pytest.raises(Refused):
        parse_changes("+a=" + "x" * 5000)


def test_create_and_change() -> None:
    made = alter(None, {"+queue.type": "BatchCQ", "+message.type": "NORMAL"})
    assert made == {"queue.type": "BatchCQ", "message.type": "NORMAL"}
    assert alter(made, {"+message.type": "FIFO"})["message.type"] == "FIFO"
    assert alter(made, {"-message.type": ""}) == {"queue.type": "BatchCQ"}
    assert alter(made, {"+reserve.time": "-1"})["reserve.time"] == "-1"
    assert alter(made, {}) == made


@pytest.mark.parametrize(
    ("current", "changes", "word"),
    [
        (None, {"-message.type": ""}, "while creating"),
        ({}, {"-message.type": ""}, "nonexistent"),
        ({"queue.type": "SimpleCQ"}, {"+queue.type": "BatchCQ"}, "unchangeable"),
        ({"queue.type": "SimpleCQ"}, {"-queue.type": ""}, "unchangeable"),
        ({}, {"+unheard": "1"}, "unsupported"),
        ({}, {"message.type": "FIFO"}, "wrong format"),
        ({}, {"": ""}, "wrong format"),
        ({}, {"+message.type": "LOUD"}, "not in the set"),
        ({}, {"+reserve.time": "soon"}, "not in the range"),
        ({}, {"+reserve.time": "-2"}, "not in the range"),
        ({"message.type": "FIFO"}, {"+message.type": "FIFO", "-message.type": ""}, "duplication"),
    ],
)
def test_alter_refuses(current: dict[str, str] | None, changes: dict[str, str], word: str) -> None:
    with pytest.raises(Refused, match=word):
        alter(current, changes)


def test_number_of_attributes_is_bounded() -> None:
    many = {f"old{n}": "" for n in range(ATTRIBUTES_MAX)}
    with pytest.raises(Refused, match="more than"):
        alter(many, {"+message.type": "FIFO"})
