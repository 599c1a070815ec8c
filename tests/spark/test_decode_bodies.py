"""Compressed bodies: every codec, bounded batches, damage and codecs that nobody knows."""

import sys

import numpy as np
import pytest
from tests.model.deflating import deflate
from tests.spark.records import BROKER, CODECS, listed, plain

from epochmq.base.errors import EnvironmentFault
from epochmq.model.sys_flag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZSTD
from epochmq.spark import decode_bodies, decode_heads
from epochmq.spark.decode import Decoder
from epochmq.spark.decode_heads import CorruptRecord, Rows, follow


def squeezed(at: int, body: bytes, codec: int) -> bytes:
    return plain(at, body=deflate(body, codec), flags=COMPRESSED | codec)


def rows_of(data: bytes) -> Rows:
    walk = follow(memoryview(data), 0, len(data))
    return decode_heads.read(np.frombuffer(data, np.uint8), walk.at, walk.sizes)[0]


def test_every_codec_is_inflated_between_plain_bodies() -> None:
    parts = [plain(0, body=b"first")]
    parts += [squeezed(n + 1, b"%d" % n * 5000, codec) for n, codec in enumerate(CODECS)]
    parts.append(plain(9, body=b""))
    (batch,) = Decoder(["body", "sysFlag"]).batches(b"".join(parts), BROKER)
    bodies = [row["body"] for row in listed([batch])]
    assert bodies == [b"first", *(b"%d" % n * 5000 for n in range(4)), b""]
    assert batch.column("sysFlag").to_pylist()[1] == COMPRESSED  # as it was stored


def test_bodies_stay_squeezed_when_asked_or_not_wanted() -> None:
    data = plain(0, body=b"no codec's", flags=COMPRESSED | 0x500)
    (batch,) = Decoder(["body"], decompress=False).batches(data, BROKER)
    assert batch.column("body").to_pylist() == [b"no codec's"]
    assert len(list(Decoder(["topic"]).batches(data, BROKER))) == 1


def test_large_bodies_spread_over_several_batches() -> None:
    rows = rows_of(b"".join(squeezed(at, b"x" * 1000, CODECS[0]) for at in range(7)))
    found = list(decode_bodies.inflated(rows, limit=2500))
    assert [len(each.rows) for each in found] == [2, 2, 2, 1]
    assert [len(each.plain) for each in found] == [2, 2, 2, 1]
    assert [len(each.rows) for each in decode_bodies.inflated(rows, limit=1)] == [1] * 7


@pytest.mark.parametrize("codec", [*CODECS, 0x400, 0x700])
def test_a_damaged_body_is_a_corrupt_record_behind_the_rows_before_it(codec: int) -> None:
    data = plain(0) + plain(1, body=b"damaged", flags=COMPRESSED | codec) + plain(2)
    found = Decoder(["queueOffset", "body"]).batches(data, BROKER)
    assert next(found).column("queueOffset").to_pylist() == [0]
    with pytest.raises(CorruptRecord) as error:
        next(found)
    assert error.value.offset_in_buffer == len(plain(0))
    rest = data[error.value.resume_at :]
    (batch,) = Decoder(["queueOffset"]).batches(rest, BROKER)
    assert batch.column("queueOffset").to_pylist() == [2]


@pytest.mark.parametrize("codec", [*CODECS, 0x400, 0x700])
@pytest.mark.parametrize(("how", "body"), [("stored", b"no codec's"), ("null", None)])
def test_a_body_that_does_not_inflate_stops_nothing_when_that_is_wished(
    codec: int, how: str, body: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can send such a message: a broker does not look into bodies."""
    data = plain(0, body=b"a") + plain(1, body=b"no codec's", flags=COMPRESSED | codec)
    data += squeezed(2, b"c", CODECS[0]) + plain(3, body=b"d")
    batches = Decoder(["queueOffset", "body"], bad_bodies=how).batches(data, BROKER)
    assert [(row["queueOffset"], row["body"]) for row in listed(list(batches))] == [
        (0, b"a"),
        (1, body),
        (2, b"c"),
        (3, b"d"),
    ]
    assert (
        f"1 bodies that say they are compressed cannot be decompressed, the first at {BROKER}"
        in (caplog.text)
    )


@pytest.mark.parametrize(
    ("codec", "library", "name"),
    [(COMPRESSION_LZ4, "lz4.frame", "LZ4"), (COMPRESSION_ZSTD, "zstandard", "zstd")],
)
def test_a_codec_that_is_not_installed_is_named_and_no_corruption(
    codec: int, library: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = squeezed(0, b"x", codec)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(EnvironmentFault, match=f"{name}.*pip install"):
        list(Decoder(["body"]).batches(data, BROKER))
