"""Templates against the general encoder, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import TEXT

from epochmq.wire.command import Command, Reply, decode, encode_frame, encode_reply
from epochmq.wire.frame import FrameReader
from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers.hot_replies import HotReplies
from epochmq.wire.headers.pull_headers import PullResponseHeader
from epochmq.wire.headers.send_headers import SendResponseHeader

INT32 = st.integers(-(2**31), 2**31 - 1)
OFFSET = st.integers(0, 2**62)
HEX = st.text("0123456789ABCDEF", min_size=1, max_size=56)
REPLIES = HotReplies()


@given(INT32, HEX, INT32, OFFSET, st.none() | TEXT)
def test_send(opaque: int, msg_id: str, queue_id: int, offset: int, unique: str | None) -> None:
    header = SendResponseHeader(
        msg_id, queue_id, offset, unique, MSG_REGION="DefaultRegion", TRACE_ON="true"
    )
    general = encode_reply(Command(310, opaque=opaque), Reply(0, None, header))
    key = None if unique is None else unique.encode()
    fast = REPLIES.send_reply(opaque, msg_id.encode(), queue_id, offset, key)
    assert fast == b"".join(general)


def test_a_send_is_answered_whatever_its_key() -> None:
    """A key may take up the request's whole header; the answer has more beside it."""
    frame = REPLIES.send_reply(1, b"00", 0, 0, b"\x03" * 32_000)
    (raw,) = FrameReader().feed(frame)
    answer = decode(raw.header, raw.binary)
    assert (answer.code, (answer.ext or {})["transactionId"]) == (0, "\x03" * 1024)


@given(
    INT32,
    st.sampled_from([0, 19, 20, 21]),
    st.none() | TEXT,
    st.tuples(OFFSET, OFFSET, OFFSET, OFFSET),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 3),
    st.binary(max_size=30),
)
def test_pull(
    opaque: int,
    code: int,
    remark: str | None,
    offsets: tuple[int, int, int, int],
    topic_flag: int | None,
    group_flag: int | None,
    body: bytes,
) -> None:
    header = PullResponseHeader(*offsets, topicSysFlag=topic_flag, groupSysFlag=group_flag)
    general = encode_reply(Command(11, opaque=opaque), Reply(code, remark, header, body))
    head = REPLIES.pull_reply_head(
        opaque, code, remark, *offsets, len(body), topic_flag, group_flag
    )
    assert head + body == b"".join(general)


@pytest.mark.parametrize("region", ['a"b\\%d%b', "область", ""])
def test_configured_texts_are_safe_in_templates(region: str) -> None:
    replies = HotReplies("JAVA", 479, region, trace_on=False)
    for unique in (b"K1", b"odd-\x01", b"\xff"):
        (frame,) = FrameReader().feed(replies.send_reply(1, b"AB", 2, 3, unique))
        cmd = decode(frame.header, frame.binary)
        header = decode_header(SendResponseHeader, cmd.ext)
        assert (cmd.language, cmd.version, cmd.is_response) == ("JAVA", 479, True)
        assert (region, "false") == (header.MSG_REGION, header.TRACE_ON)
        assert header.transactionId == unique.decode("utf-8", "replace")
    head = replies.pull_reply_head(1, 0, "FOUND", 0, 1, 2, 3)
    ext = encode_header(PullResponseHeader(0, 1, 2, 3))
    assert head == encode_frame(
        Command(0, language="JAVA", version=479, opaque=1, flag=1, remark="FOUND", ext=ext)
    )


@pytest.mark.parametrize("region", ['a"b\\%d%b', '"opaque":%d', ""])
def test_the_parts_make_the_whole(region: str) -> None:
    replies = HotReplies("JAVA", 479, region, trace_on=False)
    middle, end = replies.send_parts()
    whole = replies.send_reply(12345, b"AB", 2, 3, b"K1")
    assert whole.endswith(b'"transactionId":"K1' + middle + b"12345" + end)


@given(INT32, st.tuples(OFFSET, OFFSET, OFFSET, OFFSET), st.tuples(INT32, INT32))
def test_the_parts_of_an_answer_with_messages(
    opaque: int, offsets: tuple[int, int, int, int], flags: tuple[int, int]
) -> None:
    parts = REPLIES.pull_found_parts()
    header = b"".join(
        part + (b"%d" % number if number is not None else b"")
        for part, number in zip(parts, (*offsets, *flags, opaque, None), strict=True)
    )
    whole = REPLIES.pull_reply_head(opaque, 0, "FOUND", *offsets, 0, *flags)
    assert whole[8:] == header
