"""Batches by the native code: the same log, queues, index, answers and refusals as in Python."""

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim.kernel.disk import SimFile
from tests.broker.broker_harness import BrokerHarness, send
from tests.broker.produce.native_pairs import Pair
from tests.native.fuzz import a_body, a_text, an_entry
from tests.tiers import examples

from epochmq.base.errors import DiskFull
from epochmq.broker.produce import send_batch
from epochmq.native import library
from epochmq.store.draft import PutStatus
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

BATCH = Code.SEND_BATCH_MESSAGE


def command(
    body: bytes, properties: str = "UNIQ_KEY\x01BATCH\x02WAIT\x01true", **more: Any
) -> Command:
    return send(body, code=BATCH, properties=properties, **more)


def sound(*numbers: int) -> bytes:
    """Messages that the native code takes."""
    return b"".join(
        entry(b"body %d" % n, f"UNIQ_KEY\x01K{n}\x02TAGS\x01red\x02KEYS\x01a b") for n in numbers
    )


def entry(body: bytes, properties: str) -> bytes:
    text = properties.encode()
    size = (22 + len(body) + len(text)).to_bytes(4, "big")
    length = len(body).to_bytes(4, "big")
    return size + bytes(12) + length + body + len(text).to_bytes(2, "big") + text


@pytest.fixture
def harness() -> BrokerHarness:
    """A broker whose queue T/0 exists, so that the native code takes the next batch."""
    harness = BrokerHarness()
    harness.topic("T")
    assert harness.client().ask(command(sound(0))).code == 0
    return harness


def native_took(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the native code took each batch, noted as they come."""
    took: list[bool] = []
    inner = harness.store.append_packed

    def noted(*given: Any) -> Any:
        placed = inner(*given)
        took.append(placed is not None)
        return placed

    monkeypatch.setattr(harness.store, "append_packed", noted)
    return took


def test_the_native_code_takes_what_is_sound(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = native_took(harness, monkeypatch)
    client = harness.client()
    assert client.ask(command(sound(1, 2, 3))).code == 0
    assert [m.body for m in harness.stored("T")] == [b"body 0", b"body 1", b"body 2", b"body 3"]
    assert client.ask(command(sound(4)[:-1])).code == ResponseCode.SYSTEM_ERROR
    assert took == [True, False]
    assert harness.store.verify().problems == []


@pytest.mark.parametrize(
    "properties",
    [
        "",
        "UNIQ_KEY\x01K",
        "KEYS\x01\u3000a\u2028b\x1cc ",
        "TAGS\x01😀é",
        "TAGS\x01\x02UNIQ_KEY\x01",
    ],
)
def test_texts_of_all_kinds_are_taken(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch, properties: str
) -> None:
    took = native_took(harness, monkeypatch)
    assert harness.client().ask(command(entry(b"x", properties))).code == 0
    assert took == [True]
    assert harness.store.verify().problems == []


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.sampled_from((0, 8, 0x30)), st.booleans())
def test_both_leave_the_same(seed: int, sys_flag: int, sync: bool) -> None:
    rng = Random(seed)
    pair = Pair(flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH", max_message_size=9000)
    pair.topic("T")
    for _ in range(rng.randrange(2, 8)):
        for _ in range(rng.randrange(1, 4)):
            body = a_body(rng) if rng.random() < 0.6 else an_entry(rng) * rng.randrange(1, 9)
            text = a_text(rng) if rng.random() < 0.5 else "UNIQ_KEY\x01B"
            request = command(body, text, sysFlag=sys_flag, queue_id=rng.randrange(2))
            pair.put(rng.randrange(3), *([send()] * rng.randrange(2)), request)
        pair.turn(rng.choice((1, 100, 2000)))
        for harness in pair.harnesses:
            harness.store.sync()
        pair.turn()
    pair.close()


def test_the_end_of_a_log_file_and_of_an_index_file() -> None:
    """The log's files hold 1 MiB here, an index file 255 keys."""
    pair = Pair()
    pair.topic("T", queues=1)
    for number in range(60):
        body = sound(*range(number)) + entry(b"x" * 40_000, "UNIQ_KEY\x01K")
        pair.put(number % 3, command(body))
        pair.turn()
    assert pair.native.store.statistics()["log_files"] == 3
    pair.close()


def test_a_failed_write_takes_everything_back(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFull("the test says so")

    client = harness.client()
    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "write", full)
        assert client.ask(command(sound(1))).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert harness.store.disk_full
    harness.wait_writable()
    assert client.ask(command(sound(2))).code == 0
    assert [m.body for m in harness.stored("T")] == [b"body 0", b"body 2"]
    assert harness.store.verify().problems == []


def test_the_stores_refusal_is_answered(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
    monkeypatch.setattr(harness.store, "append_packed", lambda *given: status)
    answer = harness.client().ask(command(sound(1)))
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "in-sync replicas not enough",
    )


@pytest.mark.parametrize(("synced", "code"), [(True, 0), (False, 14)])
def test_with_synchronous_flush_the_answer_waits(
    monkeypatch: pytest.MonkeyPatch, synced: bool, code: int
) -> None:
    harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
    harness.topic("T")
    client = harness.client()
    client.put(command(sound(0)))
    harness.store.sync()
    client.take()
    took = native_took(harness, monkeypatch)
    client.put(command(sound(1)), command(sound(2), "WAIT\x01false"))
    harness.turn()
    assert (took, [answer.opaque for answer in client.take()]) == ([True, True], [3])
    if synced:
        harness.store.sync()
    else:
        harness.store.fence("the test says so")
    assert [answer.code for answer in client.take()] == [code]


@pytest.mark.parametrize("messages", [1, 3, 496, 497])
@pytest.mark.parametrize("key", ["", "BATCH", "with space", "é", "K" * 400])
@pytest.mark.parametrize("binary", [False, True])
def test_the_fast_encoding_of_an_answer_is_the_general_one(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch, messages: int, key: str, binary: bool
) -> None:
    client = harness.client()
    text = f"UNIQ_KEY\x01{key}\x02WAIT\x01true" if key else "WAIT\x01true"

    def answers() -> list[bytes]:
        asked = command(sound(*range(messages)), text)
        asked.binary, asked.opaque = binary, 77
        client.put(asked)
        harness.turn()
        return [repr(each.ext).encode() + repr(each).encode() for each in client.take()]

    def times() -> int:
        found = harness.node.request_times.items()
        return sum(sum(each.counts) for kind, each in found if kind.code == BATCH)

    def without_place(answer: bytes) -> bytes:
        return re.sub(rb"'(msgId|queueOffset)': '[^']*'", b"", answer)

    before = times()
    fast = answers()
    assert times() == before + 1
    monkeypatch.setattr(send_batch, "HOT_IDS_BYTES_MAX", -1)
    (one,), (other,) = fast, answers()
    assert times() == before + 2
    assert without_place(one) == without_place(other)
