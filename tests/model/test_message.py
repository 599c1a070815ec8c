"""Message and StoredMessage."""

import msgspec
from tests.model.deflating import deflate

from epochmq.model import record
from epochmq.model.message import Message, StoredMessage
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_ZLIB


def _stored(**changes: object) -> StoredMessage:
    raw = record.encode(
        b"T", b"hello", b"KEYS\x01k1 k2\x02TAGS\x01A\x02UNIQ_KEY\x01U", 3, 7, 42, 258, 0, 1,
        bytes(8), 2, bytes.fromhex("7f00000100002a9f"), 0, 0,
    )  # fmt: skip
    return msgspec.structs.replace(record.decode(raw), **changes)


def test_fields_become_properties() -> None:
    message = Message("T", b"", tags="A", keys=("k1", "k2"), properties={"x": "y"}, delay_level=3)
    assert message.all_properties() == {
        "x": "y",
        "KEYS": "k1 k2",
        "TAGS": "A",
        "DELAY": "3",
        "WAIT": "true",
    }
    assert message.properties == {"x": "y"}


def test_an_empty_message_only_waits() -> None:
    assert Message("T", b"").all_properties() == {"WAIT": "true"}
    assert Message("T", b"", wait_stored=False).all_properties() == {"WAIT": "false"}


def test_fields_win_over_properties_of_the_same_meaning() -> None:
    message = Message("T", b"", tags="A", properties={"TAGS": "B", "WAIT": "false"})
    assert message.all_properties() == {"TAGS": "A", "WAIT": "false"}


def test_two_messages_share_no_properties() -> None:
    assert Message("T", b"").properties is not Message("T", b"").properties


def test_what_properties_mean() -> None:
    message = _stored()
    assert message.tags == "A"
    assert message.keys == ("k1", "k2")
    assert message.uniq_key == message.msg_id == "U"
    assert message.offset_msg_id == "7F00000100002A9F0000000000000102"


def test_without_properties() -> None:
    message = _stored(properties={})
    assert message.tags is None
    assert message.keys == ()
    assert message.uniq_key is None
    assert message.msg_id == message.offset_msg_id


def test_the_body_is_inflated_on_demand() -> None:
    squeezed = deflate(b"hello")
    message = _stored(body=squeezed, sys_flag=COMPRESSED | COMPRESSION_ZLIB)
    assert message.body == squeezed
    assert message.plain_body() == b"hello"
    assert _stored().plain_body() == b"hello"
