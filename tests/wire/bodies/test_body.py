"""Bodies from and to JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import HeaderError
from epochmq.base.limits import LENIENT_BODY_BYTES_MAX
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import (
    Body,
    MaybeText,
    camel_but,
    decode_answer,
    decode_body,
    encode_body,
    mq_map_decode,
    mq_map_encode,
    queue_key,
)
from epochmq.wire.bodies.group_bodies import ConsumeStats, OffsetWrapper
from epochmq.wire.bodies.topic_bodies import TopicStatsTable

QUEUE = MessageQueue("T", "b", 0)
KEY = '{"brokerName":"b","queueId":0,"topic":"T"}'


class Sample(Body, rename=camel_but(odd_one="ODD")):
    odd_one: str
    even_one: int = 0
    maybe_one: MaybeText = None


def test_names() -> None:
    assert encode_body(Sample("x", 1, "y")) == b'{"ODD":"x","evenOne":1,"maybeOne":"y"}'
    assert camel_but(x="Y")("x") == "Y"
    assert camel_but()("a_bc_d") == "aBcD"


def test_queue_keys_go_out_quoted_and_come_in_either_way() -> None:
    assert queue_key(QUEUE) == KEY
    table = mq_map_encode([(QUEUE, OffsetWrapper(5, 3))])
    stats = ConsumeStats(table, 1.5)
    assert decode_body(ConsumeStats, encode_body(stats)) == stats
    assert mq_map_decode(stats.offset_table) == [(QUEUE, OffsetWrapper(5, 3))]
    inline = b'{"consumeTps":0.0,"offsetTable":{' + KEY.encode() + b':{"brokerOffset":7}}}'
    got = decode_body(ConsumeStats, inline)
    assert mq_map_decode(got.offset_table) == [(QUEUE, OffsetWrapper(7))]


@pytest.mark.parametrize("key", ["", "x", "{}", '{"topic":"T"}', "[1]"])
def test_a_key_that_is_no_queue(key: str) -> None:
    with pytest.raises(HeaderError):
        mq_map_decode({key: 1})


def test_sloppy_bodies_are_bent() -> None:
    assert decode_body(Sample, b'{"ODD":5,"evenOne":"007","new":[]}') == Sample("5", 7)
    assert decode_body(Sample, b'{"ODD":"\xff"}') == Sample("�")


def test_long_requests_must_be_standard_and_long_answers_need_not() -> None:
    texts = ",".join(f'"{n}"' for n in range(20_000))
    standard = f'{{"ODD":"x","new":[{texts}]}}'.encode()
    bare = f'{{"ODD":"x","new":[{texts}],"map":{{1:2}}}}'.encode()
    loose = f'{{"ODD":5,"new":[{texts}]}}'.encode()
    assert len(standard) > LENIENT_BODY_BYTES_MAX
    assert decode_body(Sample, standard) == Sample("x")
    for data in (bare, loose):
        with pytest.raises(HeaderError, match="must be standard JSON"):
            decode_body(Sample, data)
    assert decode_answer(Sample, bare) == Sample("x")
    assert decode_answer(Sample, loose) == Sample("5")
    with pytest.raises(HeaderError, match="the answer has no body"):
        decode_answer(Sample, b"")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no body; Sample is expected"),
        (b"{", "not a Sample: malformed JSON"),
        (b"[]", "not a Sample: Expected `object`"),
        (b"{}", "not a Sample: Object missing required field `ODD`"),
        (b'{"ODD":"x","evenOne":"y"}', "not a Sample: Expected `int`"),
        (b'{"ODD":' + b"[" * 10_000, "not a Sample: malformed JSON"),
        (b'{"ODD":"x","new":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not a Sample"),
    ],
)
def test_what_is_no_body(data: bytes, message: str) -> None:
    with pytest.raises(HeaderError, match=message):
        decode_body(Sample, data)


@pytest.mark.fuzz
@given(st.binary(max_size=30), st.integers(0, 60))
def test_garbage_gives_a_body_or_header_error(garbage: bytes, at: int) -> None:
    good = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"maxOffset":5}}}'
    try:
        decode_body(TopicStatsTable, good[:at] + garbage + good[at:])
    except HeaderError:
        pass
