"""Signatures, by vectors that were computed from the rule of RocketMQ's clients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.auth.signature import is_signed_by, make_signature, signed_content
from epochmq.wire.command import Command

SEND = {
    "AccessKey": "alice", "a": "pg", "b": "TopicTest", "c": "TBW102", "d": "8", "e": "0", "f": "0",
    "g": "1700000000000", "h": "0", "i": "KEYS\x01k1\x02TAGS\x01A\x02", "j": "0", "k": "false",
    "m": "false", "n": "broker-a",
}  # fmt: skip
TOKEN = {"AccessKey": "alice", "SecurityToken": "tok", "consumerGroup": "g", "topic": "中文"}
NEW = 495
"""The version number of a client of 5.3."""


@pytest.mark.parametrize(
    ("ext", "body", "secret", "size", "signature"),
    [
        (
            {"AccessKey": "rocketmq2", "topic": "TopicTest"},
            b"",
            "12345678",
            18,
            "GeeGoP9mRvDhoVp4PD5omX0prgE=",
        ),
        (SEND, b"hello", "secret-key-1", 78, "mZrjah6dlHzsnMrupDpW9jrv9TU="),
        (TOKEN, "体".encode(), "sé", 18, "yxbgt1WmiTLanTxoEIs9e22KoDk="),
        (
            {"AccessKey": "alice"},
            b'{"clientID":"c"}',
            "secret-key-1",
            21,
            "M22EyTCvvmBoA+FIWi/SmJr1M64=",
        ),
    ],
)
def test_vectors(ext: dict[str, str], body: bytes, secret: str, size: int, signature: str) -> None:
    content = signed_content(ext, body, NEW)
    assert len(content) == size
    assert make_signature(content, secret) == signature
    command = Command(10, ext={**ext, "Signature": signature}, body=body, version=NEW)
    assert is_signed_by(command, secret)


def test_values_slide_between_neighbours() -> None:
    """A limit of the scheme that SECURITY.md names; an own scheme has to close it."""
    for fields in (
        {"consumerGroup": "g1", "queueId": "2"},
        {"consumerGroup": "g", "queueId": "12"},
    ):
        content = signed_content({"AccessKey": "alice", **fields}, b"", NEW)
        assert make_signature(content, "k") == "vP2/wSMik9pR5FZDtkRrl8kZeMY="


@pytest.mark.parametrize(("version", "covered"), [(399, False), (400, True)])
def test_old_clients_do_not_sign_the_kind_of_a_query(version: int, covered: bool) -> None:
    ext = {"AccessKey": "a", "_UNIQUE_KEY_QUERY": "true"}
    assert (b"true" in signed_content(ext, b"", version)) is covered


def test_a_lone_surrogate_is_no_crash() -> None:
    ext = {"AccessKey": "\ud800", "Signature": "\ud800é"}
    assert not is_signed_by(Command(10, ext=ext), "secret")


@given(
    ext=st.dictionaries(st.text(), st.text(), max_size=8),
    body=st.binary(max_size=64),
    secret=st.text(min_size=1, max_size=16).filter(lambda s: s.isprintable()),
    flip=st.integers(min_value=0),
)
def test_a_changed_byte_of_the_content_is_noticed(
    ext: dict[str, str], body: bytes, secret: str, flip: int
) -> None:
    ext = {**ext, "AccessKey": "user"}
    ext.pop("Signature", None)
    content = signed_content(ext, body, NEW)
    signature = make_signature(content, secret)
    assert is_signed_by(Command(10, ext={**ext, "Signature": signature}, body=body), secret)
    at = flip % (8 * len(signature))
    changed = bytearray(signature.encode())
    changed[at // 8] ^= 1 << at % 8
    wrong = {**ext, "Signature": changed.decode("latin-1")}
    assert not is_signed_by(Command(10, ext=wrong, body=body), secret)
    assert not is_signed_by(
        Command(10, ext={**ext, "Signature": signature}, body=body + b"x"), secret
    )
