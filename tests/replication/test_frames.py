"""Golden bytes written out by hand, and garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import PeerError
from epochmq.base.limits import EPOCHS_SENT_MAX, HA_BODY_BYTES_MAX
from epochmq.replication.frames import (
    TRANSFER_BYTES,
    Ack,
    HandshakeReply,
    Hello,
    LinkState,
    ReplicationProtocol,
    TransferHead,
    decode_entries,
    decode_from_follower,
    decode_reply,
    decode_transfer,
    encode_ack,
    encode_hello,
    encode_reply,
    encode_transfer,
)

HELLO_G2 = bytes.fromhex("00000001 0001 0000 0000000000000007")
HELLO_G1 = bytes.fromhex("00000001 0000 0001 0000000e") + b"10.0.0.2:10911"
ACK = bytes.fromhex("00000002 0000000140000000")
ENTRIES = bytes.fromhex("00000001 0000000000000000 00000003 000000000001e240")
REPLY_20 = bytes.fromhex("00000001 00000018 0000000000020000 00000003")
TRANSFER = bytes.fromhex(
    "00000002 00000004 0000000000001000 00000003 0000000000000800 0000000000000fff"
)


def test_the_handshake_of_5_1_1() -> None:
    hello = Hello(True, False, follower_id=7)
    assert encode_hello(hello) == HELLO_G2
    assert len(HELLO_G2) == 16
    assert decode_from_follower(HELLO_G2) == (hello, 16)


def test_the_handshake_of_5_0() -> None:
    hello = Hello(False, True, address="10.0.0.2:10911")
    assert encode_hello(hello) == HELLO_G1
    assert len(HELLO_G1) == 12 + 14
    assert decode_from_follower(HELLO_G1 + b"more") == (hello, 26)


def test_an_address_is_cut_to_the_room_that_java_has() -> None:
    assert len(encode_hello(Hello(False, False, address="x" * 80))) == 62


@pytest.mark.parametrize("whole", [HELLO_G2, HELLO_G1, ACK])
def test_a_frame_of_a_follower_may_come_in_any_pieces(whole: bytes) -> None:
    for size in range(len(whole)):
        assert decode_from_follower(whole[:size]) is None
    assert decode_from_follower(b"zz" + whole, 2) == (
        decode_from_follower(whole)[0],  # type: ignore[index]
        len(whole) + 2,
    )


def test_the_acknowledgement() -> None:
    assert encode_ack(0x140000000) == ACK
    assert decode_from_follower(ACK) == (Ack(0x140000000), 12)


@pytest.mark.parametrize("state", [LinkState.READY, LinkState.SUSPEND, LinkState.SHUTDOWN, 5, -1])
def test_what_no_follower_sends(state: int) -> None:
    with pytest.raises(PeerError):
        decode_from_follower(state.to_bytes(4, "big", signed=True) + bytes(12))


@pytest.mark.parametrize("length", [51, -1, 1 << 30])
def test_an_address_of_a_wrong_length(length: int) -> None:
    with pytest.raises(PeerError):
        decode_from_follower(
            bytes.fromhex("0000000100000000") + length.to_bytes(4, "big", signed=True)
        )


def test_an_address_that_is_no_text() -> None:
    with pytest.raises(PeerError):
        decode_from_follower(bytes.fromhex("00000001 00000000 00000002 ffff"))


def test_a_handshake_names_its_sender_once() -> None:
    for names in ({}, {"follower_id": 1, "address": "a"}):
        with pytest.raises(PeerError):
            Hello(False, False, **names)  # type: ignore[arg-type]


@pytest.mark.parametrize("generation", [ReplicationProtocol.G1B, ReplicationProtocol.G2])
def test_the_reply_of_5_1(generation: ReplicationProtocol) -> None:
    data = encode_reply(generation, 0x20000, [(1, 0), (3, 123456)])
    assert data == REPLY_20 + ENTRIES
    assert decode_reply(data) == HandshakeReply(24, 0x20000, 3)
    assert decode_entries(data[20:]) == [(1, 0), (3, 123456)]


def test_the_reply_of_5_0_has_36_bytes() -> None:
    data = encode_reply(ReplicationProtocol.G1A, 0x20000, [(1, 0), (3, 123456)])
    assert data == REPLY_20 + bytes(16) + ENTRIES
    assert decode_reply(data) == HandshakeReply(24, 0x20000, 3)


def test_the_reply_of_a_master_without_epochs() -> None:
    data = encode_reply(ReplicationProtocol.G2, 0, [])
    assert data == bytes.fromhex("00000001 00000000 0000000000000000 ffffffff")
    assert decode_reply(data) == HandshakeReply(0, 0, -1)


def test_a_reply_has_the_newest_epochs_only() -> None:
    data = encode_reply(ReplicationProtocol.G2, 0, [(n, n) for n in range(EPOCHS_SENT_MAX + 5)])
    entries = decode_entries(data[20:])
    assert len(entries) == EPOCHS_SENT_MAX
    assert entries[-1] == (EPOCHS_SENT_MAX + 4, EPOCHS_SENT_MAX + 4)


@pytest.mark.parametrize(
    "entries", [[(2, 0), (1, 5)], [(1, 5), (2, 4)], [(1, 0), (1, 0)], [(-1, 0)], [(0, -1)]]
)
def test_epochs_that_do_not_rise(entries: list[tuple[int, int]]) -> None:
    body = encode_reply(ReplicationProtocol.G2, 0, entries)[20:]
    with pytest.raises(PeerError):
        decode_entries(body)


def test_epochs_may_be_empty() -> None:
    body = encode_reply(ReplicationProtocol.G2, 9, [(1, 5), (2, 5)])[20:]
    assert decode_entries(body) == [(1, 5), (2, 5)]


@pytest.mark.parametrize("head", ["00000002 00000018", "00000001 00000017", "00000001 fffffff4"])
def test_wrong_replies(head: str) -> None:
    with pytest.raises(PeerError):
        decode_reply(bytes.fromhex(head) + bytes(28))


def test_the_transfer_frame() -> None:
    assert encode_transfer(4, 0x1000, 3, 0x800, 0xFFF) == TRANSFER
    assert len(TRANSFER) == TRANSFER_BYTES == 36
    assert decode_transfer(b"x" + TRANSFER, 1) == TransferHead(4, 0x1000, 3, 0x800, 0xFFF)


@pytest.mark.parametrize("size", [-1, HA_BODY_BYTES_MAX + 1])
def test_a_body_has_bounds(size: int) -> None:
    with pytest.raises(PeerError):
        decode_transfer(encode_transfer(size, 0, 1, 0, 0))


def test_a_transfer_frame_of_another_state() -> None:
    with pytest.raises(PeerError):
        decode_transfer(bytes.fromhex("00000001") + bytes(32))


@given(st.binary(max_size=80))
def test_garbage_is_refused_or_understood(data: bytes) -> None:
    try:
        found = decode_from_follower(data)
        assert found is None or (0 < found[1] <= len(data))
        if len(data) >= 36:
            decode_reply(data)
            decode_transfer(data)
        decode_entries(data[: len(data) // 12 * 12])
    except PeerError:
        pass


@given(
    st.booleans(),
    st.booleans(),
    st.one_of(st.integers(1, (1 << 32) - 1), st.from_regex(r"[a-z0-9.:]{1,50}", fullmatch=True)),
)
def test_handshakes_survive_the_way(last: bool, learner: bool, name: int | str) -> None:
    hello = (
        Hello(last, learner, follower_id=name)
        if isinstance(name, int)
        else Hello(last, learner, address=name)
    )
    data = encode_hello(hello)
    assert decode_from_follower(data) == (hello, len(data))
