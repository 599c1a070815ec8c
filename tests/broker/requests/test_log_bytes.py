"""Digests and bytes of the confirmed log."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sim.kernel.disk import SimFile
from tests.broker.broker_harness import BrokerHarness, ext, send
from tests.broker.requests.test_epoch_offsets import Epochs
from tests.store.store_internals import flip_bit

from epochmq.base import limits
from epochmq.base.errors import DiskFailed
from epochmq.broker.requests import log_handlers
from epochmq.store.written_blocks import BLOCK_BYTES
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.offset_bodies import EpochSpan, LogDigests
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

BLOCK = 4096


def digests(**fields: int) -> Command:
    values = {"fromOffset": 0, "blockBytes": BLOCK, **fields}
    return Command(Code.LOG_DIGESTS, ext={name: str(value) for name, value in values.items()})


def read(offset: int, **fields: int) -> Command:
    values = {"fromOffset": offset, **fields}
    return Command(Code.LOG_READ, ext={name: str(value) for name, value in values.items()})


@pytest.fixture
def harness() -> BrokerHarness:
    """Two and a bit log files of 1 MiB."""
    harness = BrokerHarness()
    harness.topic("T", 1)
    client = harness.client()
    for n in range(25):
        client.ask(send(b"%02d" % n * 50_000))
    return harness


def whole(harness: BrokerHarness) -> bytes:
    store, data = harness.store, b""
    while len(data) < store.pointers.confirmed:
        data += bytes(store.slice(len(data), store.pointers.confirmed - len(data)))
    return data


def made(answer: Command) -> LogDigests:
    assert answer.code == ResponseCode.SUCCESS, answer
    return decode_body(LogDigests, answer.body)


def test_blocks_are_cut_at_multiples_and_hashed(harness: BrokerHarness) -> None:
    log = whole(harness)
    found = made(harness.client().ask(digests(blockBytes=300_000)))
    assert (found.confirmed, found.start, found.epochs) == (len(log), 0, [])
    assert [offset % 300_000 for offset, _, _ in found.blocks] == [0] * len(found.blocks)
    assert sum(size for _, size, _ in found.blocks) == len(log)
    for offset, size, text in found.blocks:
        expected = hashlib.blake2b(log[offset : offset + size], digest_size=16).hexdigest()
        assert text == expected
    part = made(
        harness.client().ask(digests(blockBytes=300_000, fromOffset=700_000, toOffset=950_000))
    )
    assert [row[:2] for row in part.blocks] == [(600_000, 300_000), (900_000, 50_000)]
    assert part.blocks[0] == found.blocks[2]


def test_nothing_unconfirmed_is_shown() -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T", 1)
    client = harness.client()
    client.put(send(b"x" * 9000))
    harness.turn()
    harness.store.sync()
    kept = harness.store.pointers.confirmed
    client.put(send(b"y" * 9000))
    harness.turn()
    client.take()
    assert harness.store.pointers.appended > kept
    answer = client.ask(digests(toOffset=1 << 40))
    assert sum(row[1] for row in made(answer).blocks) == made(answer).confirmed == kept
    assert client.ask(read(kept)).code == ResponseCode.PULL_NOT_FOUND
    assert len(client.ask(read(kept - 10)).body) == 10


def test_one_answer_is_bounded(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DIGEST_BYTES_MAX", 3 * BLOCK)
    assert len(made(harness.client().ask(digests())).blocks) == 3
    for size in (0, BLOCK - 1, limits.DIGEST_BLOCK_BYTES_MAX + 1):
        answer = harness.client().ask(digests(blockBytes=size))
        assert answer.code == ResponseCode.INVALID_PARAMETER


def test_work_is_done_in_steps_and_by_few_at_a_time(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_handlers, "STEP_BYTES", 2 * BLOCK)
    waiting: list[Callable[[], None]] = []

    def background(call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        waiting.append(lambda: done(call()))

    ports = replace(harness.node.ports, background=background)
    monkeypatch.setattr(harness.node, "ports", ports)
    client, gone = harness.client(), harness.client()
    client.put(*(digests(toOffset=5 * BLOCK) for _ in range(limits.DIGEST_RUNS_MAX)))
    gone.put(digests())
    assert [answer.code for answer in gone.take()] == [ResponseCode.SYSTEM_BUSY]
    steps = 0
    while waiting:
        waiting.pop(0)()
        steps += 1
    assert steps == 3 * limits.DIGEST_RUNS_MAX
    assert [len(made(answer).blocks) for answer in client.take()] == [5] * limits.DIGEST_RUNS_MAX
    gone.put(digests())
    gone.session.lost()
    waiting.pop(0)()
    assert not waiting
    assert harness.node.digest_runs == 0


def test_a_block_that_cannot_be_read_ends_the_answer(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = replace(harness.node.ports, background=lambda call, done: done(None))
    monkeypatch.setattr(harness.node, "ports", ports)
    assert made(harness.client().ask(digests())).blocks == []
    assert harness.node.digest_runs == 0


def verified(**fields: Any) -> Command:
    command = digests(blockBytes=BLOCK_BYTES, **fields)
    assert command.ext is not None
    command.ext["verify"] = "true"
    return command


def test_a_broker_looks_at_its_bytes_when_asked(harness: BrokerHarness) -> None:
    client = harness.client()
    plain, answer = client.ask(digests(blockBytes=BLOCK_BYTES)), client.ask(verified())
    assert "verified" not in (plain.ext or {})
    assert ext(answer)["verified"] == "true"
    assert made(answer).blocks == made(plain).blocks[:1]  # never more than one such block
    last = made(plain).blocks[-1]
    answer = client.ask(verified(fromOffset=last[0]))
    assert (made(answer).blocks, ext(answer)["verified"]) == ([last], "true")
    flip_bit(harness.store, 70_000)
    damaged = client.ask(verified(fromOffset=BLOCK_BYTES))
    assert made(damaged).blocks == []
    assert ext(damaged)["verified"] == "false"
    assert harness.store.damage.found == 1
    assert made(client.ask(verified(fromOffset=1 << 62))).blocks == []


def test_an_answer_ends_before_damage_and_names_it(harness: BrokerHarness) -> None:
    client = harness.client()
    sound = made(client.ask(digests(blockBytes=BLOCK_BYTES)))
    assert sound.damaged == []
    flip_bit(harness.store, 210_000)
    client.ask(verified(fromOffset=3 * BLOCK_BYTES))  # finds the damage
    answer = made(client.ask(digests(blockBytes=BLOCK_BYTES)))
    ((start, end),) = answer.damaged
    assert 2 * BLOCK_BYTES < start <= 210_000 < end < 5 * BLOCK_BYTES
    assert answer.blocks == sound.blocks[: start // BLOCK_BYTES]
    behind = made(client.ask(digests(blockBytes=BLOCK_BYTES, fromOffset=5 * BLOCK_BYTES)))
    assert (behind.blocks, behind.damaged) == (sound.blocks[5:], [])


def test_a_look_that_fails_is_none(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = replace(harness.node.ports, background=lambda call, done: done(None))
    monkeypatch.setattr(harness.node, "ports", ports)
    answer = harness.client().ask(verified())
    assert "verified" not in (answer.ext or {})
    assert harness.node.digest_runs == 0


def test_epochs_come_along() -> None:
    harness = BrokerHarness(enable_controller_mode=True)
    harness.topic("T", 1)
    client = harness.client()
    client.ask(send(b"x"))
    harness.node.replica = Epochs((3, 0))
    end = harness.store.pointers.appended
    assert made(client.ask(digests())).epochs == [EpochSpan(3, 0, end)]


def test_the_log_is_read_file_by_file(harness: BrokerHarness) -> None:
    log, data, at = whole(harness), b"", 0
    client = harness.client()
    while (answer := client.ask(read(at, maxBytes=400_000))).code == ResponseCode.SUCCESS:
        assert 0 < len(answer.body) <= 400_000
        data += answer.body
        at = int(ext(answer)["nextOffset"])
        assert at == len(data)
    assert data == log
    assert (answer.code, ext(answer)["confirmed"]) == (ResponseCode.PULL_NOT_FOUND, str(len(log)))
    for outside in (-1, len(log) + 1):
        answer = client.ask(read(outside))
        assert (answer.code, ext(answer)["start"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


def test_damaged_bytes_are_read_only_if_they_are_wanted(harness: BrokerHarness) -> None:
    store, client = harness.store, harness.client()
    right = whole(harness)
    store.damage.report(60_000, 70_000, "test")
    short = client.ask(read(50_000, maxBytes=40_000))
    assert short.body == right[50_000:60_000]
    answer = client.ask(read(50_000, maxBytes=40_000, unchecked="true"))
    assert answer.body == right[50_000:90_000]
    assert ext(answer)["nextOffset"] == "90000"
    end = store.pointers.confirmed
    assert client.ask(read(end, unchecked="true")).code == ResponseCode.PULL_NOT_FOUND


def test_unchecked_bytes_that_the_device_cannot_read(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> bytes:
        raise DiskFailed("a bad sector")

    monkeypatch.setattr(SimFile, "read", fail)
    answer = harness.client().ask(read(0, unchecked="true"))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "a bad sector")
