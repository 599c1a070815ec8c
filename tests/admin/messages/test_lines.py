"""A line as a message: as it is, or as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.admin.messages.lines import Defaults, from_json, from_line
from epochmq.base.errors import UsageError

PLAIN = Defaults("t")
FULL = Defaults("t", tags="A", key="k", delay_level=3)


def test_a_line_is_the_body() -> None:
    plain = from_line(b'{"body": 1}', PLAIN)
    assert (plain.message.body, plain.key, plain.message.keys) == (b'{"body": 1}', None, ())
    full = from_line(b"x", FULL)
    assert (full.key, full.message.tags, full.message.keys) == ("k", "A", ("k",))
    assert full.message.delay_level == 3


def test_json_names_its_parts() -> None:
    line = {
        "body": "hello",
        "tags": "B",
        "keys": "k1 k2",
        "key": "o",
        "properties": {"n": 1, "UNIQ_KEY": "not copied"},
        "delay_level": 2,
        "queue_offset": 7,
    }
    found = from_json(json.dumps(line).encode(), FULL, 1)
    message = found.message
    assert (message.body, message.tags, message.keys) == (b"hello", "B", ("k1", "k2"))
    assert (message.properties, message.delay_level, found.key) == ({"n": "1"}, 2, "o")


def test_what_json_leaves_out_comes_from_the_command() -> None:
    found = from_json(b'{"body": ""}', FULL, 1)
    message = found.message
    assert (message.tags, message.keys, message.delay_level, found.key) == ("A", ("k",), 3, "k")


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ('"body": {"a": [1, "ü"]}', '{"a":[1,"ü"]}'.encode()),
        ('"body": null', b"null"),
        ('"body_base64": "AP8="', b"\x00\xff"),
    ],
)
def test_bodies(body: str, stored: bytes) -> None:
    assert from_json(f"{{{body}}}".encode(), PLAIN, 1).message.body == stored


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "[]",
        "{}",
        '{"body_base64": "%"}',
        '{"body": "", "tags": 1}',
        '{"body": "", "keys": [1]}',
        '{"body": "", "properties": []}',
        '{"body": "", "delay_level": 19}',
        '{"body": "", "delay_level": true}',
    ],
)
def test_a_wrong_line_is_named(line: str) -> None:
    with pytest.raises(UsageError, match=r"^line 12: "):
        from_json(line.encode(), PLAIN, 12)


@given(st.binary(max_size=40))
def test_garbage_is_only_a_usage_error(line: bytes) -> None:
    try:
        from_json(line, PLAIN, 1)
    except UsageError:
        pass
