"""Messages in lists: bodies that are long, binary or hostile; filters of the live tail."""

from tests.client.core.test_pop_handle import stored

from epochmq.admin.dashboard.message_queries import BODY_CHARS, filter_of, short_row
from epochmq.client.aio import Sql


def row(body: bytes) -> dict[str, object]:
    message = stored(3, "orders", 1)
    message.body = body
    return short_row(message)


def test_a_short_text_is_whole() -> None:
    assert row(b"hello")["body"] == "hello"
    assert row(b"hello")["body_is_cut"] is False
    assert row(b"")["body"] == ""


def test_a_long_text_is_cut() -> None:
    found = row("ä".encode() * (BODY_CHARS + 1))
    assert found["body"] == "ä" * BODY_CHARS
    assert found["body_is_cut"] is True


def test_a_binary_body_is_left_out() -> None:
    found = row(b"\xff\x00")
    assert found["body"] is None
    assert "body_base64" not in found


def test_filters() -> None:
    assert filter_of("", False) == "*"
    assert filter_of(" a || b ", False) == "a || b"
    assert filter_of("n > 3", True) == Sql("n > 3")
