"""Authentication of replication links, with any split of the bytes, and over real links."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.replication.link_authentication import (
    ANSWER_BYTES,
    CALL_BYTES,
    MAC_BYTES,
    MAGIC,
    FollowerHandshake,
    LinkKeys,
    MasterHandshake,
    NotAuthenticated,
    derive_key,
)
from epochmq.replication.master_link import MasterPeer
from epochmq.replication.replica_server import LinkServer
from epochmq.runtime.clock import RealClock
from epochmq.runtime.rng import new_nonce
from epochmq.runtime.streams import StreamSockets

from .brokers import until

KEY = derive_key("inner", "secret")
OTHER = derive_key("inner", "other")
HELLO = bytes.fromhex("00000001") + b"hello of a follower"


def keys(key: bytes = KEY, *, required: bool = True) -> LinkKeys:
    return LinkKeys(key, required, new_nonce)


def fed(master: MasterHandshake, data: bytes, sizes: list[int]) -> tuple[bytes, bytes | None]:
    """Give `data` in pieces; what it sends, and what is left once it is over."""
    sent, at = b"", 0
    for size in [*sizes, len(data)]:
        reply, rest = master.received(data[at : at + size])
        at = min(at + size, len(data))
        sent += reply
        if rest is not None:
            return sent, rest + data[at:]
    return sent, None


SPLITS = st.lists(st.integers(min_value=1, max_value=40), max_size=8)


@given(SPLITS, SPLITS)
def test_both_ends_know_the_secret(first: list[int], second: list[int]) -> None:
    master, follower = MasterHandshake(keys(), 0), FollowerHandshake(keys())
    assert len(follower.call) == CALL_BYTES
    answer, rest = fed(master, follower.call, first)
    assert (len(answer), rest) == (ANSWER_BYTES, None)
    assert fed(master, follower.proof(answer) + HELLO, second) == (b"", HELLO)


@given(SPLITS)
def test_a_follower_without_authentication(splits: list[int]) -> None:
    with pytest.raises(NotAuthenticated, match="does not authenticate itself"):
        fed(MasterHandshake(keys(), 0), HELLO, splits)
    assert fed(MasterHandshake(keys(required=False), 0), HELLO, splits) == (b"", HELLO)


def test_a_master_or_a_follower_with_another_secret() -> None:
    master, follower = MasterHandshake(keys(OTHER), 0), FollowerHandshake(keys())
    answer, _ = master.received(follower.call)
    with pytest.raises(NotAuthenticated, match="master does not know the secret"):
        follower.proof(answer)
    for required in (True, False):
        master = MasterHandshake(keys(required=required), 0)
        stranger = FollowerHandshake(keys(OTHER))
        master.received(stranger.call)
        with pytest.raises(NotAuthenticated, match="does not know the secret"):
            master.received(bytes(MAC_BYTES))


def test_an_answer_or_a_proof_of_another_link_is_worth_nothing() -> None:
    """Neither end can be used to make the proof for itself, and nothing can be repeated."""
    first, second = MasterHandshake(keys(), 0), MasterHandshake(keys(), 0)
    follower = FollowerHandshake(keys())
    answer, _ = first.received(follower.call)
    proof = follower.proof(answer)
    second.received(follower.call)
    with pytest.raises(NotAuthenticated):
        second.received(proof)
    with pytest.raises(NotAuthenticated):
        FollowerHandshake(keys()).proof(answer)
    third = MasterHandshake(keys(), 0)
    answer, _ = third.received(follower.call)
    with pytest.raises(NotAuthenticated):
        third.received(answer[CALL_BYTES:])


@given(st.integers(min_value=0, max_value=8 * ANSWER_BYTES - 1))
def test_each_bit_of_the_answer_counts(bit: int) -> None:
    master, follower = MasterHandshake(keys(), 0), FollowerHandshake(keys())
    answer = bytearray(master.received(follower.call)[0])
    answer[bit // 8] ^= 1 << bit % 8
    with pytest.raises(NotAuthenticated):
        follower.proof(bytes(answer))


@given(st.binary(min_size=1, max_size=200))
def test_no_bytes_of_a_stranger_authenticate(data: bytes) -> None:
    master = MasterHandshake(keys(), 0)
    try:
        _, rest = master.received(data)
    except NotAuthenticated:
        return
    assert rest is None
    assert MAGIC.startswith(data[: len(MAGIC)])


def test_the_key_is_not_shown_and_depends_on_the_user() -> None:
    assert derive_key("other", "secret") != KEY
    assert str(KEY) not in repr(keys())


# Real links ----------------------------------------------------------------------------------


class Side:
    """The core of a master or a follower: notes what it hears."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.data = b""
        self.reading, self.suspended, self.whole_end = True, False, 0

    def link_accepted(self, link: int, peer: str, now: int) -> None:
        self.events.append("accepted")

    def link_received(self, link: int, data: memoryview, now: int) -> None:
        self.data += bytes(data)

    def link_closed(self, link: int, now: int) -> None:
        self.events.append("closed")

    def next_chunk(self, link: int, now: int) -> None:
        return None

    def dialled(self, now: int) -> None:
        self.events.append("dialled")

    def received(self, data: memoryview, now: int, wall: int) -> None:
        self.data += bytes(data)

    def direct_space(self, least: int) -> None:
        return None

    def hung_up(self, now: int) -> None:
        self.events.append("hung up")


class Pair:
    """A replica server and a follower that greets it."""

    def __init__(self, master: LinkKeys | None, follower: LinkKeys | None) -> None:
        self.master, self.follower = Side(), Side()
        self.broken: list[Exception] = []
        files: object = None
        self.server = LinkServer(
            self.master,
            files,  # type: ignore[arg-type]
            StreamSockets(),
            RealClock(),
            lambda: None,
            self.broken.append,
            master,
        )
        self.port = self.server.start("127.0.0.1", 0)
        self.peer = MasterPeer(
            self.follower, StreamSockets(), RealClock(), self._greet, 10, 1_000, follower
        )
        self.task: asyncio.Task[None] | None = None

    def _greet(self) -> None:
        self.peer.send(HELLO)

    def run(self) -> None:
        self.task = asyncio.create_task(self.peer.run("127.0.0.1", self.port))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        self.server.stop()
        assert self.broken == []


Make = Callable[[LinkKeys | None, LinkKeys | None], Pair]


@pytest.fixture
async def pair() -> AsyncIterator[Make]:
    made: list[Pair] = []

    def make(master: LinkKeys | None, follower: LinkKeys | None) -> Pair:
        made.append(Pair(master, follower))
        return made[-1]

    yield make
    for each in made:
        await each.stop()


@pytest.mark.parametrize(
    ("master", "follower"),
    [
        (keys(), keys()),
        (keys(required=False), keys()),
        (keys(), keys(required=False)),
        (keys(required=False), None),
        (None, keys(required=False)),
        (None, None),
    ],
    ids=["both", "master is lenient", "follower is lenient", "old follower", "old master", "none"],
)
async def test_links_that_work(
    pair: Make, master: LinkKeys | None, follower: LinkKeys | None
) -> None:
    """Also those between brokers of a group that is being changed over."""
    made = pair(master, follower)
    made.run()
    await until(lambda: made.master.data.endswith(HELLO))
    assert made.follower.events[0] == "dialled"


@pytest.mark.parametrize(
    ("master", "follower"),
    [(keys(), None), (keys(), keys(OTHER)), (keys(OTHER, required=False), keys())],
    ids=["no authentication", "another secret", "a master with another secret"],
)
async def test_strangers_get_and_change_nothing(
    pair: Make,
    master: LinkKeys,
    follower: LinkKeys | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = pair(master, follower)
    made.run()
    await until(lambda: "refused" in caplog.text or "not authenticated" in caplog.text)
    await until(lambda: made.server.wires == {} or made.follower.events == [])
    assert made.master.events == []
    assert made.master.data == b""
    assert made.follower.data == b""


async def test_a_silent_stranger_is_closed(pair: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochmq.replication.replica_server.HANDSHAKE_S", 0.05)
    made = pair(keys(), None)
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    writer.write(MAGIC + os.urandom(3))
    assert await reader.read() == b""
    assert made.server.wires == {}
    assert made.master.events == []
    writer.close()
