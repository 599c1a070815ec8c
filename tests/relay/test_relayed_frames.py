import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import PeerError
from epochmq.base.limits import HEADER_BYTES_MAX
from epochmq.relay.relayed_frames import answer_frame, read_frames, read_head, whole_frame
from epochmq.wire.command import Command, decode, encode_frame
from epochmq.wire.frame import FrameReader

commands = st.builds(
    Command,
    st.integers(0, 32_000),
    opaque=st.integers(0, 2**31 - 1),
    flag=st.integers(0, 3),
    remark=st.none() | st.text(max_size=20),
    ext=st.none() | st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4),
    body=st.binary(max_size=50),
    binary=st.booleans(),
)


@given(st.lists(commands, max_size=5), st.integers(0, 400))
def test_the_heads_are_those_of_the_commands(sent: list[Command], cut: int) -> None:
    frames = [encode_frame(command) for command in sent]
    data = b"".join(frames)
    size = max(0, len(data) - cut)
    found = read_frames(memoryview(data), 0, size, HEADER_BYTES_MAX)
    whole, end = 0, 0
    while whole < len(frames) and end + len(frames[whole]) <= size:
        end += len(frames[whole])
        whole += 1
    assert len(found) == whole
    for frame, command, bytes_ in zip(found, sent, frames, strict=False):
        start, stop, head = frame
        assert data[start:stop] == bytes_
        assert (head.code, head.opaque, head.flag) == (command.code, command.opaque, command.flag)


def test_a_header_with_loose_types_is_read_as_brokers_read_it() -> None:
    header = b'{"code":"10","opaque":"7","flag":1.0,"extFields":{"a":1}}'
    head = read_head(memoryview(header), binary=False)
    assert (head.code, head.opaque, head.flag) == (10, 7, 1)


@pytest.mark.parametrize("header", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"code":1e99}'])
def test_a_header_that_is_none_is_an_error_of_the_peer(header: bytes) -> None:
    with pytest.raises(PeerError):
        read_head(memoryview(header), binary=False)


def test_a_prefix_that_is_none_is_an_error_of_the_peer() -> None:
    with pytest.raises(PeerError, match="HTTP"):
        read_frames(memoryview(b"GET / HTTP/1.1\r\n"), 0, 16, HEADER_BYTES_MAX)


def test_a_frame_with_too_long_a_header_is_left_to_the_connection() -> None:
    good = encode_frame(Command(10, opaque=1))
    long = encode_frame(Command(10, opaque=2, remark="x" * 100))
    data = memoryview(good + long)
    assert [head.opaque for _, _, head in read_frames(data, 0, len(data), 100)] == [1]


def test_an_answer_is_a_whole_frame() -> None:
    (frame,) = FrameReader().feed(answer_frame(7, 14, "no master"))
    answer = decode(frame.header, frame.binary)
    assert answer.is_response
    assert (answer.code, answer.opaque, answer.remark) == (14, 7, "no master")


@given(commands)
def test_a_split_frame_is_joined_again(command: Command) -> None:
    data = encode_frame(command)
    (frame,) = FrameReader().feed(data)
    assert whole_frame(frame) == data
