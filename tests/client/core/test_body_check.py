"""Bodies compared with their checksums."""

from tests.client.aio.test_subscribing import message

from epochmq.client.core.consumer_state import CorruptMessage, is_sound, sound_front
from epochmq.model.crc import crc32
from epochmq.model.message import StoredMessage


def stored(body: bytes, crc: int | None = None) -> StoredMessage:
    made = message("A")
    made.body, made.body_crc = body, crc32(body) if crc is None else crc
    return made


def test_what_lies_before_the_first_damaged_one() -> None:
    good, bad = stored(b"x"), stored(b"y", 7)
    assert sound_front([good, good]) == [good, good]
    assert sound_front([good, bad, good]) == [good]
    assert sound_front([bad]) == []


def test_an_empty_body_has_the_checksum_zero() -> None:
    assert is_sound(stored(b"", 0))


def test_the_error_names_the_message() -> None:
    error = CorruptMessage(stored(b"y", 7), "broker-a", 1)
    assert "queue 0 of broker-a (replica 1)" in str(error)
    assert error.broker_id == 1
