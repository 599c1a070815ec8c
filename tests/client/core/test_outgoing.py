"""A user's message on its way to the wire."""

import random
import zlib
from collections.abc import Callable

import pytest

from epochmq.base.errors import EpochError, UsageError
from epochmq.client.core.outgoing import prepare
from epochmq.model.compression import compressor, inflate
from epochmq.model.group import RETRIES_UNLIMITED
from epochmq.model.message import Message
from epochmq.model.properties import decode


def test_properties_carry_tag_keys_level_and_id() -> None:
    out = prepare(Message("T", b"x", tags="A", keys=("k1", "k2"), delay_level=3), "ID")
    assert decode(out.properties) == {
        "TAGS": "A",
        "KEYS": "k1 k2",
        "DELAY": "3",
        "UNIQ_KEY": "ID",
        "WAIT": "true",
    }
    assert (out.uniq_id, out.sys_flag, out.body) == ("ID", 0, b"x")


def test_an_id_given_by_the_user_is_kept() -> None:
    assert prepare(Message("T", b"", properties={"UNIQ_KEY": "mine"}), "ID").uniq_id == "mine"


def test_large_bodies_are_compressed_when_it_helps() -> None:
    out = prepare(Message("T", b"a" * 5_000), "ID")
    assert zlib.decompress(out.body) == b"a" * 5_000
    assert out.sys_flag == 0x301
    noise = bytes(range(256)) * 16
    assert prepare(Message("T", zlib.compress(noise * 90, 9) * 40), "ID").topic == "T"


@pytest.mark.parametrize(("codec", "flag"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_codec_can_be_chosen(codec: str, flag: int, kind: Callable[[bytes], bytes]) -> None:
    plain = bytes(range(200)) * 1_000
    out = prepare(Message("T", kind(plain)), "ID", compression=compressor(codec))
    assert out.sys_flag == flag
    assert len(out.body) < len(plain)
    assert inflate(out.body, out.sys_flag) == plain
    noise = random.Random(7).randbytes(5_000)
    assert prepare(Message("T", noise), "ID", compression=compressor(codec)).sys_flag == 0


@pytest.mark.parametrize(
    "message",
    [
        Message("", b""),
        Message("../x", b""),
        Message("T", b"x" * (4 * 1024 * 1024 + 1)),
        Message("T", b"", properties={"a\x01": "b"}),
        Message("T", b"", properties={"a": "b" * 40_000}),
    ],
)
def test_what_no_broker_takes_is_refused_at_once(message: Message) -> None:
    with pytest.raises(EpochError):
        prepare(message, "ID")


def test_the_error_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="split it"):
        prepare(Message("T", b"x" * 5_000_000), "ID")


def test_what_is_sent_again_to_a_group_is_no_dead_letter() -> None:
    """A group in order holds a queue, and a broker takes a copy with a limit for its last one."""
    assert prepare(Message("%RETRY%g", b""), "id").max_reconsume_times == RETRIES_UNLIMITED
    assert prepare(Message("T", b""), "id").max_reconsume_times is None
