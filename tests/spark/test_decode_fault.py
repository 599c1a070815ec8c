"""The error says where, why and how to go on."""

from epochmq.base.errors import PeerError
from epochmq.spark.decode_heads import CorruptRecord


def test_it_names_the_place_and_the_reason_in_one_line() -> None:
    error = CorruptRecord(17, "its parts do not add up")
    assert str(error) == "no sound record at byte 17: its parts do not add up"
    assert (error.kind, error.resume_at) == ("damaged", None)
    assert isinstance(error, PeerError)


def test_it_can_be_moved_to_where_the_buffer_lies_in_a_file() -> None:
    error = CorruptRecord(17, "torn off", "torn", resume_at=40).moved(1000)
    assert (error.offset_in_buffer, error.resume_at, error.kind) == (1017, 1040, "torn")
    assert CorruptRecord(1, "x", "nothing").moved(5).resume_at is None
