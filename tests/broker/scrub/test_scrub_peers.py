"""Comparisons with other replicas: what is asked, and what any answer brings about."""

import logging
from collections.abc import Callable
from typing import cast

import pytest
from tests.broker.broker_harness import BrokerHarness, send
from tests.store.store_internals import flip_bit

from epochmq.base.errors import NotReachable
from epochmq.broker.scrub import scrub_service as subject
from epochmq.broker.scrub.scrub_service import Comparing, ScrubPeers
from epochmq.runtime.peers import Peers
from epochmq.store.scrub import CheckedBlock
from epochmq.store.written_blocks import BLOCK_BYTES
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.offset_bodies import LogDigests
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command

Rows = list[tuple[int, int, str]]


class FakePeers:
    """Answers by a test; also the list of members."""

    def __init__(self, answer: Callable[[Command], Command]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.members = {1: "other:1"}

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        assert command.code == RequestCode.LOG_DIGESTS
        self.asked.append((address, dict(command.ext or {})))
        return self.answer(command)

    async def others(self) -> dict[int, str]:
        return self.members


def answered(rows: Rows, *, verified: bool = False) -> Command:
    ext = {"verified": "true"} if verified else {}
    return Command(0, ext=ext, body=encode_body(LogDigests(blocks=rows)))


class Case:
    """A broker with some blocks of log, which it compares with a scripted one."""

    def __init__(self, answer: Callable[[Command], Command]) -> None:
        self.harness = BrokerHarness()
        self.harness.topic("T", 1)
        client = self.harness.client()
        for n in range(6):
            client.ask(send(b"%02d" % n * 15_000))
        self.store = self.harness.store
        self.store.sync()
        self.peers = FakePeers(answer)
        self.comparing = Comparing(
            self.harness.node,
            cast(Peers, self.peers),
            cast(ScrubPeers, self.peers),
            self.harness.clock,
        )

    def seen(self) -> list[CheckedBlock]:
        """What the search finds in all of the log."""
        found: list[CheckedBlock] = []
        self.store.scrub.position = 0
        self.store.scrub.search(1 << 30, found.extend)
        self.store.chores.run_all()
        assert len(found) == 3
        return found

    async def compare(self) -> None:
        assert self.comparing.wants(self.harness.clock.now)
        self.comparing.begin(self.seen())
        assert not self.comparing.wants(self.harness.clock.now)
        assert self.comparing._task is not None
        await self.comparing._task

    def rows(self, changed: int = -1) -> Rows:
        return [
            (one.start, one.size, "changed" if number == changed else one.digest)
            for number, one in enumerate(self.seen())
        ]


async def test_equal_blocks_are_counted_and_get_checksums() -> None:
    case = Case(lambda _: answered(case.rows()))
    size = case.store.pointers.confirmed
    assert not case.store.checksums.block_at(0).covered
    case.store.checksums.covered = 2 * BLOCK_BYTES  # as after a start with an older log
    await case.compare()
    ((address, ext),) = case.peers.asked
    assert address == "other:1"
    assert ext == {"fromOffset": "0", "toOffset": str(size), "blockBytes": str(BLOCK_BYTES)}
    assert case.harness.node.differences.same_bytes == size
    covered = [case.store.checksums.block_at(n * BLOCK_BYTES).covered for n in range(3)]
    assert covered == [BLOCK_BYTES, BLOCK_BYTES, 0]
    for start in (0, BLOCK_BYTES):
        assert case.store.checksums.verify(start).value == "ok"


async def test_what_differs_gets_no_checksum() -> None:
    case = Case(lambda _: answered(case.rows(changed=1), verified=True))
    case.store.checksums.covered = 3 * BLOCK_BYTES
    await case.compare()
    assert [case.store.checksums.block_at(n * BLOCK_BYTES).covered for n in (0, 1)] == [
        BLOCK_BYTES,
        0,
    ]


@pytest.mark.parametrize("verified", [True, False])
async def test_both_are_sure(verified: bool, caplog: pytest.LogCaptureFixture) -> None:
    case = Case(lambda _: answered(case.rows(changed=1), verified=verified))
    await case.compare()
    differences = case.harness.node.differences
    assert [ext.get("verify") for _, ext in case.peers.asked] == [None, "true"]
    assert case.peers.asked[1][1]["fromOffset"] == str(BLOCK_BYTES)
    assert len(differences) == (1 if verified else 0)
    assert ("both brokers find theirs sound" in caplog.text) is verified
    assert case.store.damage.found == 0
    if verified:
        await case.compare()  # it is known, and not looked at again
        assert len(case.peers.asked) == 3
        case.peers.answer = lambda _: answered(case.rows())
        await case.compare()
        assert len(differences) == 0


async def test_own_damage_is_found_by_the_difference() -> None:
    case = Case(lambda _: answered(rows, verified=True))
    rows = case.rows()
    flip_bit(case.store, BLOCK_BYTES + 100)
    await case.compare()
    assert len(case.peers.asked) == 1
    (damaged,) = case.store.damage.ranges
    assert damaged.start <= BLOCK_BYTES + 100 < damaged.end
    assert "body checksum" in damaged.reason
    assert len(case.harness.node.differences) == 0


async def test_their_damage_is_theirs() -> None:
    def answer(command: Command) -> Command:
        if (command.ext or {}).get("verify"):
            return answered([])
        return answered(case.rows(changed=0))

    case = Case(answer)
    await case.compare()
    assert len(case.peers.asked) == 2
    assert len(case.harness.node.differences) == 0


async def test_a_log_that_was_cut_meanwhile_is_no_difference() -> None:
    def answer(command: Command) -> Command:
        rows = case.rows(changed=0)
        if (command.ext or {}).get("verify"):
            case.store.checksums.invalidate(case.store.pointers.appended)
        return answered(rows, verified=True)

    case = Case(answer)
    await case.compare()
    assert len(case.harness.node.differences) == 0


def raises(_: Command) -> Command:
    raise NotReachable("away")


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: Command(0, body=b""),
        lambda _: Command(0, body=b"\xff{"),
        lambda _: Command(0, body=b'{"blocks":[[0]]}'),
        lambda _: Command(0, body=b'{"blocks":[[0,"x",5]]}'),
        lambda _: Command(0, body=b"[" * 100_000),
        lambda _: Command(0, body=b'{"blocks":[]' + b" " * (1 << 20) + b"}"),
        lambda _: answered([(0, 1, "x" * 900_000), (-5, 1 << 60, ""), (1 << 62, 0, "y")]),
        lambda _: Command(0, ext={"verified": "?"}, body=b'{"blocks":[[0,65536,7]]}'),
        lambda _: Command(ResponseCode.SYSTEM_BUSY, remark="later"),
        raises,
    ],
    ids=["none", "bytes", "short", "types", "deep", "long", "odd", "header", "busy", "away"],
)
async def test_no_answer_does_harm(
    answer: Callable[[Command], Command], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    case = Case(answer)
    await case.compare()
    assert len(case.peers.asked) == 1
    assert len(case.harness.node.differences) == case.harness.node.differences.same_bytes == 0
    assert case.store.damage.found == 0
    assert not caplog.records
    assert case.comparing.wants(case.harness.clock.now)


async def test_what_was_found_before_an_answer_failed_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(command: Command) -> Command:
        if len(case.peers.asked) == 3:
            raise NotReachable("away")
        return answered([(at, n, "x") for at, n, _ in case.rows()], verified=True)

    case = Case(answer)
    await case.compare()
    assert len(case.harness.node.differences) == 1
    assert "1 blocks of the log, the first at log offset 0" in caplog.text


async def test_a_cut_log_is_compared_again() -> None:
    case = Case(lambda _: answered(case.rows(changed=0), verified=True))
    await case.compare()
    assert len(case.harness.node.differences) == 1
    case.store.checksums.invalidate(case.store.pointers.appended)
    case.peers.answer = raises
    await case.compare()
    assert len(case.harness.node.differences) == 0


async def test_only_some_blocks_are_examined_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject.compare_digests, "EXAMINED_MAX", 2)
    case = Case(lambda _: answered([(at, n, "x") for at, n, _ in case.rows()], verified=True))
    await case.compare()
    assert len(case.peers.asked) == 3
    await case.compare()  # the third one
    assert len(case.peers.asked) == 5
    assert len(case.harness.node.differences) == 3


async def test_a_replica_that_does_not_know_the_request_is_skipped() -> None:
    case = Case(lambda _: Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
    await case.compare()
    await case.compare()
    assert len(case.peers.asked) == 1
    case.harness.clock.step(subject.UNABLE_MS)
    await case.compare()
    assert len(case.peers.asked) == 2


async def test_a_broker_alone_asks_for_members_only_now_and_then() -> None:
    case = Case(raises)
    case.peers.members = {}
    await case.compare()
    assert not case.comparing.wants(case.harness.clock.now)
    case.harness.clock.step(subject.MEMBERS_MS)
    assert case.comparing.wants(case.harness.clock.now)
    assert case.peers.asked == []


async def test_a_stop_ends_the_comparison() -> None:
    case = Case(raises)
    case.comparing.begin(case.seen())
    await case.comparing.close()
    await case.comparing.close()
    assert case.peers.asked == []
