"""What the answers of replicas mean for a range that was planned."""

from dataclasses import replace

import pytest

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio.bulk_calls import BulkRead, DamageThere
from epochmq.client.core.consumer_state import PullStatus
from epochmq.model import record
from epochmq.model.topic import MessageQueue
from epochmq.spark.range_read import (
    Nothing,
    RangeReads,
    RawChunk,
    Want,
    before,
    bulk_read,
    in_order,
    nothing,
    pull_header,
    pulled,
)
from epochmq.spark.retry import DataLost, Retry
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

QUEUE = MessageQueue("t", "broker-a", 0)
WANT = Want(QUEUE, 10, 20)
HOST = bytes(8)


def stored(queue_offset: int) -> bytes:
    return record.encode(b"t", b"body", b"", 0, 0, queue_offset, 0, 0, 0, HOST, 0, HOST, 0, 0)


def answer(code: int, following: int, low: int = 0, high: int = 100, body: bytes = b"") -> Command:
    ext = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(following),
        "minOffset": str(low),
        "maxOffset": str(high),
    }
    return Command(code, ext=ext, body=body)


def test_records_behind_the_end_are_left_out() -> None:
    body = b"".join(map(stored, (10, 15, 19, 20, 25)))
    chunk = pulled(answer(ResponseCode.SUCCESS, 26, body=body), WANT)
    assert isinstance(chunk, RawChunk)
    assert chunk.next_offset == 20
    assert [m.queue_offset for m in record.decode_all(chunk.records)] == [10, 15, 19]
    assert before(b"", 5) == b""


def test_what_a_filter_skips_is_progress_only_with_a_filter() -> None:
    code = ResponseCode.PULL_RETRY_IMMEDIATELY
    filtered = Want(QUEUE, 10, 20, tags="a")
    assert pulled(answer(code, 17), filtered) == RawChunk(b"", 17, 0, 100)
    assert isinstance(pulled(answer(code, 17), WANT), Nothing), "messages would be skipped unseen"
    assert isinstance(pulled(answer(code, 17, low=15), filtered), Nothing)


def test_only_an_older_begin_is_certain_loss() -> None:
    moved = pulled(answer(ResponseCode.PULL_OFFSET_MOVED, 15, low=15), WANT)
    assert isinstance(moved, Nothing)
    assert moved.certain
    assert moved.lost is not None
    assert (moved.lost.start, moved.lost.stop) == (10, 15)
    short = pulled(answer(ResponseCode.PULL_NOT_FOUND, 10, high=10), WANT)
    assert isinstance(short, Nothing)
    assert not short.certain, "a follower may be behind"
    assert short.lost is not None
    assert (short.lost.start, short.lost.stop) == (10, 20)
    assert nothing(WANT, 0, 100).lost is None, "it is there: ask again"


def test_errors_are_errors() -> None:
    with pytest.raises(Refused, match="no"):
        pulled(Command(ResponseCode.NO_PERMISSION, remark="no"), WANT)


def test_a_bulk_read_that_gives_nothing_further_is_no_progress() -> None:
    def bulk(status: PullStatus, following: int, high: int) -> BulkRead:
        return BulkRead(status, b"", 0, following, 0, high, None)

    assert bulk_read(bulk(PullStatus.FOUND, 18, 100), WANT) == RawChunk(b"", 18, 0, 100)
    assert isinstance(bulk_read(bulk(PullStatus.FOUND, 10, 100), WANT), Nothing)
    assert isinstance(bulk_read(bulk(PullStatus.NO_NEW_MSG, 10, 10), WANT), Nothing)


class Replicas(RangeReads):
    """What each replica says."""

    def __init__(self, **answers: RawChunk | Exception) -> None:
        self.answers = answers
        self._retries = Hurried()  # type: ignore[assignment]

    def _places(self, want: Want) -> list[tuple[int, str]]:
        return list(enumerate(self.answers))

    async def _read(self, address: str, want: Want) -> RawChunk:
        answer = self.answers[address]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Hurried:
    """Believes every loss at once."""

    timeout_ms = 0

    async def meet(self) -> None: ...

    async def refresh(self, topic: str) -> None: ...


DAMAGE = DamageThere(ResponseCode.SYSTEM_ERROR, "the log is damaged", 10, 14)
CHUNK = RawChunk(stored(10), 11, 0, 100)


async def test_a_replica_that_has_it_whole_is_asked_before_damage_is_told() -> None:
    for want in (WANT, replace(WANT, skips_damage=True)):
        assert await Replicas(m=DAMAGE, f1=NotReachable("x"), f2=CHUNK).chunk(want) is CHUNK
    with pytest.raises(DamageThere, match="the log is damaged"):
        await Replicas(m=DAMAGE, f=NotReachable("x")).chunk(WANT)
    with pytest.raises(DataLost, match=r"offsets 10 to 13 \(4 messages\) .* the log is damaged"):
        await Replicas(m=NotReachable("x"), f=DAMAGE).chunk(replace(WANT, skips_damage=True))
    near = replace(WANT, end=12, skips_damage=True)
    with pytest.raises(DataLost, match="offsets 10 to 11"):
        await Replicas(m=DAMAGE).chunk(near)


async def test_damage_may_be_repaired_while_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicas = Replicas(m=DAMAGE)
    replicas._retries.timeout_ms = 60_000

    async def repaired(retry: Retry, problem: Exception) -> None:
        assert problem is DAMAGE
        replicas.answers["m"] = CHUNK

    monkeypatch.setattr(Retry, "__init__", lambda *_: None)
    monkeypatch.setattr(Retry, "pause", repaired)
    monkeypatch.setattr(Hurried, "expire", lambda *_: None, raising=False)
    assert await replicas.chunk(replace(WANT, skips_damage=True)) is CHUNK


def test_which_replica_is_read_first() -> None:
    replicas = {0: "m", 2: "f2", 5: "f5"}
    assert [a for _, a in in_order(replicas, "auto", 0)] == ["m", "f2", "f5"]
    assert [a for _, a in in_order(replicas, "master", 0)] == ["m"]
    assert [a for _, a in in_order(replicas, "follower", 0)] == ["f2", "f5", "m"]
    assert [a for _, a in in_order(replicas, "follower", 1)] == ["f5", "f2", "m"]
    assert [a for _, a in in_order({0: "m"}, "follower", 3)] == ["m"]
    assert in_order({3: "f"}, "master", 0) == []


def test_a_pull_asks_for_no_more_than_is_wanted() -> None:
    assert pull_header(WANT).maxMsgNums == 10
    assert pull_header(Want(QUEUE, 0, 5_000)).maxMsgNums == 1024
    assert pull_header(Want(QUEUE, 0, 5, tags="a || b")).subscription == "a || b"
