"""Messages as bytes: what is written is read back, anything else is the peer's fault."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base import limits
from epochmq.base.errors import PeerError
from epochmq.raft.raft_messages import (
    VERSION,
    AnyMessage,
    AppendEntries,
    AppendReply,
    EntryKind,
    Heartbeat,
    HeartbeatReply,
    Install,
    LogEntry,
    Snapshot,
    TimeoutNow,
    Vote,
    VoteReply,
    VotersAndLearners,
    decode,
    decode_members,
    encode,
    encode_members,
)

counts = st.integers(0, (1 << 63) - 1)
names = st.text(min_size=1, max_size=20)
members = st.builds(
    VotersAndLearners,
    st.lists(names, max_size=5).map(tuple),
    st.lists(names, max_size=3).map(tuple),
)
entries = st.builds(LogEntry, counts, counts, st.sampled_from(EntryKind), st.binary(max_size=50))
snapshots = st.builds(Snapshot, counts, counts, members, st.binary(max_size=50))
head = (names, names, counts)
messages = st.one_of(
    st.builds(Vote, *head, counts, counts, st.booleans(), st.booleans()),
    st.builds(VoteReply, *head, st.booleans(), st.booleans()),
    st.builds(
        AppendEntries, *head, counts, counts, counts, st.lists(entries, max_size=4).map(tuple)
    ),
    st.builds(AppendReply, *head, counts, st.booleans(), counts, counts),
    st.builds(Heartbeat, *head, counts, counts, counts),
    st.builds(HeartbeatReply, *head, counts, counts),
    st.builds(Install, *head, snapshots),
    st.builds(TimeoutNow, *head),
)


@given(messages)
def test_round_trip(message: AnyMessage) -> None:
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_a_changed_message_is_another_message_or_garbage(
    message: AnyMessage, data: st.DataObject
) -> None:
    """Remote error or value, nothing else."""
    good = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(good[: data.draw(st.integers(0, len(good)))])
    for bad in (bytes(good), cut):
        try:
            decode(bad)
        except PeerError:
            pass


@given(st.binary(max_size=200))
def test_noise(data: bytes) -> None:
    for bad in (data, bytes([VERSION]) + data):
        try:
            decode(bad)
        except PeerError:
            pass


def test_bounds() -> None:
    with pytest.raises(PeerError, match="over the limit"):
        decode(bytes(limits.RAFT_MESSAGE_BYTES_MAX + 1))
    with pytest.raises(PeerError, match="unknown version"):
        decode(b"\x02whatever")
    with pytest.raises(PeerError, match="unknown version"):
        decode(b"")
    too_many = tuple(
        LogEntry(1, i, EntryKind.NO_OP) for i in range(limits.RAFT_ENTRIES_PER_MESSAGE_MAX + 1)
    )
    with pytest.raises(PeerError):
        decode(encode(AppendEntries("a", "b", 1, 0, 0, 0, too_many)))
    with pytest.raises(PeerError):
        decode(encode(TimeoutNow("a", "", 1)))
    with pytest.raises(PeerError):
        decode(encode(TimeoutNow("a", "b", -1)))


@given(members)
def test_members(value: VotersAndLearners) -> None:
    assert decode_members(encode_members(value)) == value


def test_members_that_make_no_sense() -> None:
    for bad in (b"", b"\xc1", b"\x91\x01", encode_members(VotersAndLearners(("n",) * 65))):
        with pytest.raises(PeerError):
            decode_members(bad)
