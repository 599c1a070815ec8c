"""What single columns do with values that a client may have made up."""

import pytest
from tests.spark.records import BROKER, listed, plain

from epochmq.model import record
from epochmq.model.host import pack
from epochmq.spark import decode_columns
from epochmq.spark.columns import NAMES
from epochmq.spark.decode import Decoder


def born(ms: int) -> bytes:
    host = pack("10.0.0.1", 1)
    return record.encode(b"t", b"", b"", 0, 0, 0, 0, 0, ms, host, 5, host, 0, 0)


@pytest.mark.parametrize("ms", [2**63 - 1, -(2**63), decode_columns.TIME_MS_MAX + 1])
def test_a_time_beyond_the_calendar_is_null(ms: int) -> None:
    decoder = Decoder(["bornTimestamp", "storeTimestamp"])
    rows = listed(list(decoder.batches(born(1) + born(ms) + born(2), BROKER)))
    assert [row["bornTimestamp"] for row in rows] == [1000, None, 2000]
    assert [row["storeTimestamp"] for row in rows] == [5000] * 3


def test_the_last_and_first_moments_of_the_calendar_are_kept() -> None:
    (batch,) = Decoder(["bornTimestamp"]).batches(
        born(decode_columns.TIME_MS_MIN) + born(decode_columns.TIME_MS_MAX), BROKER
    )
    first, last = batch.column(0).to_pylist()
    assert (first.year, last.year) == (1, 9999)


def test_without_a_client_id_the_place_is_the_id() -> None:
    data = plain(1) + plain(2, props=b"") + plain(3, props=b"UNIQ_KEY\x01\x02")
    rows = listed(list(Decoder(["msgId"]).batches(data, BROKER)))
    ids = [message.msg_id for message in record.decode_all(data)]
    assert [row["msgId"] for row in rows] == ids
    assert ids[1].endswith(f"{2000:016X}")


def test_every_column_has_a_builder() -> None:
    (batch,) = Decoder().batches(plain(), BROKER)
    assert batch.schema.names == list(NAMES)
