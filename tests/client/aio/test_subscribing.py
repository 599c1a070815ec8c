"""What a consumer asks for, and its own half of the filtering."""

import pytest

from epochmq.base.errors import Refused
from epochmq.client.aio.listening import Sql, subscription, wants
from epochmq.model.message import StoredMessage


def message(tags: str | None) -> StoredMessage:
    host = ("127.0.0.1", 10911)
    return StoredMessage(
        "t",
        0,
        0,
        0,
        100,
        b"",
        0,
        0,
        0,
        host,
        0,
        host,
        0,
        0,
        properties={"TAGS": tags} if tags else {},
        body_crc=0,
    )


@pytest.mark.parametrize(
    ("expression", "tags", "wanted"),
    [
        ("*", None, True),
        ("*", "A", True),
        ("A || B", "B", True),
        ("A || B", "C", False),
        ("A", None, False),
        # These two tags have the same Java hash, so only the client can tell them apart.
        ("Aa", "BB", False),
        (Sql("n > 1"), "C", True),
    ],
)
def test_tags_are_compared_as_text(expression: str | Sql, tags: str | None, wanted: bool) -> None:
    assert wants(subscription("t", expression, 1), message(tags)) is wanted


def test_an_empty_filter_is_refused() -> None:
    with pytest.raises(Refused):
        subscription("t", Sql(""), 1)
