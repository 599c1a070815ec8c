"""The learner's dialogue with a master, frame by frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import PeerError, StoreDamaged
from epochmq.base.limits import BROKER_ID_MAX
from epochmq.replication.frames import (
    Ack,
    Hello,
    ReplicationProtocol,
    decode_from_follower,
    encode_reply,
    encode_transfer,
)
from epochmq.spark.log_learner import Learner
from epochmq.store.epochs import OPEN_END

ENTRIES = [(2, 0), (5, 1000)]


def shaken(
    learner: Learner, end: int = 3000, entries: list[tuple[int, int]] | None = None
) -> bytes:
    """After the master's reply; what the learner sends then."""
    reply = encode_reply(ReplicationProtocol.G2, end, ENTRIES if entries is None else entries)
    head = learner.needs
    said = learner.head(reply[:head])
    if reply[head:]:
        assert said == b""
        assert learner.needs == len(reply) - head
        said = learner.head(reply[head:])
    return said


def frame(size: int, offset: int, epoch: int = 2, start: int = 0, confirmed: int = 2500) -> bytes:
    return encode_transfer(size, offset, epoch, start, confirmed)


def test_it_comes_as_a_learner_that_is_no_broker() -> None:
    found = decode_from_follower(Learner(5, 0).hello())
    assert found is not None
    hello = found[0]
    assert isinstance(hello, Hello)
    assert (hello.learner, hello.from_last_file) == (True, False)
    assert hello.follower_id is not None
    assert hello.follower_id > BROKER_ID_MAX


@given(st.integers(0, 1 << 64))
def test_its_number_is_one_that_masters_take(number: int) -> None:
    found = decode_from_follower(Learner(number, 0).hello())
    assert found is not None
    hello = found[0]
    assert isinstance(hello, Hello)
    assert hello.follower_id is not None
    assert BROKER_ID_MAX < hello.follower_id < 1 << 32


def test_log_begins_where_the_master_begins() -> None:
    learner = Learner(1, 0)
    assert decode_from_follower(shaken(learner)) == (Ack(0), 12)
    learner.head(frame(100, 800))
    assert (learner.offset, learner.left, learner.needs, learner.confirmed) == (800, 100, 0, 2500)
    learner.took(60)
    assert (learner.left, learner.needs) == (40, 0)
    learner.took(40)
    assert learner.needs == len(frame(0, 0))
    assert decode_from_follower(learner.ack()) == (Ack(900), 12)


def test_it_goes_on_where_it_was_when_the_epochs_agree() -> None:
    learner = Learner(1, 1500, [(2, 0), (5, 1000)])
    assert decode_from_follower(shaken(learner)) == (Ack(1500), 12)
    learner.head(frame(0, 1500, 5, 1000))
    assert (learner.left, learner.offset) == (0, 1500)


@pytest.mark.parametrize(
    ("offset", "known", "end"),
    [
        (1500, [(2, 0), (4, 900)], 3000),  # its epoch 4 was never the master's
        (1500, [(2, 0)], 3000),  # epoch 2 went on here, and ended there
        (3001, [], 3000),
        (1500, [(2, 0), (5, 1000)], 1400),
    ],
)
def test_a_log_that_parts_from_what_was_read_is_damage(
    offset: int, known: list[tuple[int, int]], end: int
) -> None:
    with pytest.raises(StoreDamaged, match="compare the replicas"):
        shaken(Learner(1, offset, known), end)


@pytest.mark.parametrize(
    "bad",
    [
        frame(10, 101),
        frame(10, 99),
        frame(10, -1),
        frame(10, 100, 2, 7),
        frame(10, 100, 6, 999),
    ],
)
def test_what_no_master_sends_is_the_peers_fault(bad: bytes) -> None:
    learner = Learner(1, 100, [(2, 0)])
    shaken(learner)
    with pytest.raises(PeerError):
        learner.head(bad)


def test_epochs_are_known_from_the_handshake_and_from_frames() -> None:
    learner = Learner(1, 0)
    shaken(learner)
    learner.head(frame(0, 10, 9, 2000))
    assert [learner.epoch_at(at) for at in (0, 999, 1000, 1999, 2000)] == [
        (2, 1000),
        (2, 1000),
        (5, 2000),
        (5, 2000),
        (9, OPEN_END),
    ]


def test_below_the_first_epoch_nobody_is_named() -> None:
    learner = Learner(1, 0)
    shaken(learner, entries=[(7, 400)])
    assert learner.epoch_at(10) == (None, 400)
    empty = Learner(1, 0)
    shaken(empty, entries=[])
    assert empty.epoch_at(10) == (None, OPEN_END)


def test_an_empty_epoch_ends_where_it_starts() -> None:
    learner = Learner(1, 0)
    shaken(learner, entries=[(1, 0), (2, 50), (3, 50)])
    assert [learner.epoch_at(at) for at in (49, 50)] == [(1, 50), (3, OPEN_END)]
