"""Recall handles: the bytes RocketMQ 5.3.3 makes, and what is none."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import PeerError
from epochmq.model.recall_handle import RecallHandle, parse

NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_five_words() -> None:
    handle = RecallHandle("T", "broker-a", 1_700_000_000_001, "0A")
    assert str(handle) == encoded("v1 T broker-a 1700000000001 0A")
    assert parse(str(handle)) == handle
    assert parse(encoded("v1 T b 5 0A more")) == RecallHandle("T", "b", 5, "0A")
    assert parse(encoded("v1 T b soon 0A")).deliver_wall_ms == -1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "ab",
        "é",
        encoded("v2 T b 5 0A"),
        encoded("v1 T b 5"),
        encoded("v1  b 5 0A"),
        base64.urlsafe_b64encode(b"v1 \xff b 5 0A").decode(),
        encoded("v1 T b 5 " + "A" * 4_096),
    ],
)
def test_no_handle(text: str) -> None:
    with pytest.raises(PeerError, match="recall handle is invalid"):
        parse(text)


@given(NAMES, NAMES, st.integers(0, 10**18 - 1), NAMES)
def test_every_handle_comes_back(topic: str, broker: str, wall: int, key: str) -> None:
    handle = RecallHandle(topic, broker, wall, key)
    assert parse(str(handle)) == handle
