"""Single sends by the native code: the same log, queues, index, answers as in Python."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim.kernel.disk import SimFile
from tests.broker.broker_harness import BrokerHarness, Client, ext, pull, send
from tests.broker.produce.native_pairs import BUFFER, Pair
from tests.native.fuzz import a_header, a_text, damaged
from tests.tiers import examples

from epochmq.base.errors import DiskFull
from epochmq.model.host import pack
from epochmq.model.message_id import offset_id
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.native import library
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, encode_frame
from epochmq.wire.frame import PREFIX

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

COUNTED = ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE")
KEY = "UNIQ_KEY\x010A0000090BAD18B4AAC2000000000001"


def hot(body: bytes = b"hello", properties: str = KEY, **more: Any) -> Command:
    return send(body, properties=properties, **more)


def read(client: Client, *commands: Command) -> int:
    """One read of a connection: how many of its bytes the native code took."""
    for command in commands:
        client.opaque += 1
        command.opaque = command.opaque or client.opaque
    data = b"".join(map(encode_frame, commands))
    BUFFER[: len(data)] = data
    sink, now = client.harness.sink, client.harness.clock.now
    taken = sink.receive_raw(client.session, BUFFER, 0, len(data))
    frames = client.reader.feed(BUFFER[taken : len(data)])
    if frames:
        sink.receive(client.session, frames, now)
    return taken


@pytest.fixture
def harness() -> BrokerHarness:
    """A broker whose topic T the native code knows."""
    harness = BrokerHarness()
    harness.topic("T")
    assert harness.client().ask(hot(b"first")).code == 0
    return harness


def whole(*commands: Command) -> int:
    return sum(len(encode_frame(command)) for command in commands)


def test_ordinary_sends_are_taken_and_answered(harness: BrokerHarness) -> None:
    client, other = harness.client(), harness.client()
    commands = [hot(b"a"), hot(b"b", f"{KEY}\x02TAGS\x01red\x02", queue_id=1)]
    assert read(client, *commands) == whole(*commands)
    assert read(other, hot(b"c")) > 0
    assert client.take() == other.take() == []
    harness.turn()
    answers = client.take() + other.take()
    assert [answer.opaque for answer in answers] == [1, 2, 1]
    assert [(ext(a)["queueId"], ext(a)["queueOffset"]) for a in answers] == [
        ("0", "1"), ("1", "0"), ("0", "2"),
    ]  # fmt: skip
    assert [m.body for m in harness.stored("T")] == [b"first", b"a", b"c"]
    (red,) = harness.stored("T", 1)
    assert (red.tags, red.properties["CLUSTER"], red.born_host) == ("red", "c", ("10.0.0.9", 40002))
    host = pack("127.0.0.1", 10911)
    assert ext(answers[1]) == {
        "msgId": offset_id(host, red.offset),
        "queueId": "1",
        "queueOffset": "0",
        "transactionId": KEY.partition("\x01")[2],
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert harness.store.verify().problems == []
    assert harness.node.stats.put.total == 4


def test_the_answer_is_that_of_python_byte_for_byte() -> None:
    told = []
    for native in (True, False):
        harness = BrokerHarness(region_id='100%d "R"', trace_on=False)
        harness.topic("T")
        client = harness.client()
        client.ask(hot())
        if not native:
            harness.sink.stage.native = None
        assert bool(read(client, hot(), hot(b"x"))) == native
        harness.turn()
        told.append(b"".join(client.session.pop_outbox()))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "command",
    [
        hot(topic="U"),
        hot(queue_id=-1),
        hot(queue_id=4),
        hot(b""),
        hot(b"x" * 70_000),
        hot(sysFlag=4),
        hot(sysFlag=0x10),
        hot(batch="true"),
        hot(flag="007"),
        hot(reconsumeTimes=""),
        hot(properties="WAIT\x01true"),
        hot(properties=f"{KEY}\x02WAIT\x01false"),
        hot(properties=f"{KEY}\x02DELAY\x011\x02TIMER_DELAY_SEC\x011"),
        hot(properties=f"{KEY}\x02a\x01\0"),
        hot(properties="UNIQ_KEY\x01a-b"),
        hot(properties=f"{KEY}\x02a\x01" + "x" * 32_700),
        hot(binary=True),
        hot(oneway=True),
        hot(code=Code.SEND_MESSAGE),
        hot(code=Code.SEND_BATCH_MESSAGE),
        pull(),
    ],
)
def test_what_is_unusual_is_left_to_python(command: Command) -> None:
    harness = BrokerHarness(max_message_size=65_536)
    harness.topic("T")
    client = harness.client()
    client.ask(hot())
    command.opaque = 7
    before = hot(b"before")
    assert read(client, before, command, hot(b"after")) == whole(before)
    harness.turn()
    assert [m.body for m in harness.stored("T")][1] == b"before"
    assert harness.store.verify().problems == []


def test_what_came_first_is_stored_first(harness: BrokerHarness) -> None:
    """Python has some of a session's messages: the next read may not overtake them."""
    client = harness.client()
    read(client, hot(b"1"), hot(b"2", "KEYS\x01k"), hot(b"3"))
    assert read(client, hot(b"4")) == 0
    read(client, pull(offset=1))
    harness.turn()
    assert [m.body for m in harness.stored("T")] == [b"first", b"1", b"2", b"3", b"4"]
    assert b"4" in bytes(client.take()[-1].body)


def test_changed_topics_and_options_reach_native_code(harness: BrokerHarness) -> None:
    client = harness.client()
    assert read(client, hot()) > 0
    harness.topic("T", perm=4)
    harness.sink.stage.begin()
    assert read(client, hot()) == 0
    harness.turn()
    assert sorted(a.code for a in client.take()) == [0, ResponseCode.NO_PERMISSION]
    harness.topic("T", queues=8)
    assert client.ask(hot(queue_id=7)).code == 0
    assert read(client, hot(queue_id=7)) > 0
    harness.turn()
    client.take()
    changed = BrokerHarness(region_id="Other").options
    harness.node.adopt_options(changed)
    read(client, hot())
    harness.turn()
    read(client, hot())
    harness.turn()
    assert [ext(answer)["MSG_REGION"] for answer in client.take()] == ["Other", "Other"]
    assert read(client, hot()) > 0
    harness.turn()
    assert ext(client.take()[0])["MSG_REGION"] == "Other"


def test_a_failed_write_is_answered(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFull("the test says so")

    client = harness.client()
    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "write", full)
        assert read(client, hot(b"lost")) > 0
        harness.turn()
    assert [a.code for a in client.take()] == [ResponseCode.SERVICE_NOT_AVAILABLE]
    harness.wait_writable()
    assert read(client, hot(b"kept")) > 0
    harness.turn()
    assert [m.body for m in harness.stored("T")] == [b"first", b"kept"]
    assert harness.store.verify().problems == []
    assert harness.node.stats.put.total == 2


@pytest.mark.parametrize("code", [0, 10, 14])
def test_with_synchronous_flush_the_answers_wait(code: int) -> None:
    told = []
    for native in (True, False):
        harness = BrokerHarness(flush_disk_type="SYNC_FLUSH")
        harness.topic("T")
        client = harness.client()
        client.put(hot())
        harness.turn()
        harness.store.sync()
        client.take()
        if not native:
            harness.sink.stage.native = None
        assert bool(read(client, hot(b"a"), hot(b"b"))) == native
        harness.turn()
        assert client.take() == []
        if code == 0:
            harness.store.sync()
        elif code == 10:
            harness.sink.stage.syncs.expire(harness.clock.now + 100_000)
        else:
            harness.store.fence("the test says so")
        told.append(b"".join(client.session.pop_outbox()))
    assert told[0] == told[1]
    assert told[0].count(b'"code":%d' % code) == 2


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.booleans())
def test_both_leave_the_same(seed: int, sync: bool) -> None:
    rng = Random(seed)
    pair = Pair(flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH", max_message_size=90_000)
    pair.topic("T")
    pair.topic("Wide", queues=2)
    pair.put(0, hot(), hot(topic="Wide"))
    pair.turn()
    opaque = 100
    for _ in range(rng.randrange(2, 8)):
        for _ in range(rng.randrange(1, 6)):
            data = b""
            for _ in range(rng.randrange(1, 5)):
                opaque += 1
                body = rng.randbytes(rng.choice((1, 50, 63, 64, 80, 40_000)))
                header = a_header(rng, opaque)
                if rng.random() < 0.2:
                    header = damaged(rng, header)
                data += PREFIX.pack(4 + len(header) + len(body), len(header)) + header + body
            pair.read(rng.randrange(3), data)
            if pair.native.sink.stage.has_drafts:
                break  # what the native code takes of other connections now, would come before them
        if rng.random() < 0.1:
            pair.topic("T", queues=rng.randrange(1, 6))
        pair.turn(rng.choice((1, 100, 2000)))
        for harness in pair.harnesses:
            harness.store.sync()
        pair.turn()
    pair.close()


def test_texts_of_all_kinds() -> None:
    """Properties of any kind, some of which the native code takes."""
    rng = Random(5)
    pair = Pair()
    pair.topic("T")
    pair.put(0, hot())
    pair.turn()
    for number in range(300):
        command = hot(b"x", f"{KEY}\x02{a_text(rng)}")
        command.opaque = number + 1000
        pair.read(0, encode_frame(command))
        pair.turn()
    pair.close()


def test_both_count_the_same_sizes_and_times() -> None:
    pair = Pair(flush_disk_type="SYNC_FLUSH")
    pair.topic("T")
    pair.put(0, hot(b"first"))
    pair.turn(0)
    for harness in pair.harnesses:
        harness.store.sync()
    sizes = (1, 850, 1_000, 3_900, 4_200, 100_000)
    pair.read(0, b"".join(encode_frame(hot(b"x" * size)) for size in sizes))
    pair.turn()
    for harness in pair.harnesses:
        harness.clock.step(5)
        harness.store.sync()
    found = []
    for harness in pair.harnesses:
        harness.sink.stage.count_sent()
        sizes_of = {key: (f.counts, f.total) for key, f in harness.node.stats.message_sizes.items()}
        times = {kind: (f.counts, f.total) for kind, f in harness.node.request_times.items()}
        found.append((sizes_of, times))
    assert found[0] == found[1]
    assert sum(found[0][0]["T", "normal"][0]) == len(sizes) + 1
    ((counts, _),) = found[0][1].values()
    assert (counts[0], counts[3]) == (1, len(sizes))


TYPED = (
    "TAGS\x01A", "__SHARDINGKEY\x01k", "__STARTDELIVERTIME\x011700000000000", "TRAN_MSG\x01true",
    "TRAN_MSG\x01TRUE", "TRAN_MSG\x01false", "DELAY\x013", "DELAY\x010", "DELAY\x01x",
    "TIMER_DELAY_SEC\x0160", "TIMER_DELIVER_MS\x015", "__SINK_ID\x01s", "PGROUP\x01P",
)  # fmt: skip


@settings(max_examples=examples(100))
@given(st.lists(st.lists(st.sampled_from(TYPED), max_size=4), min_size=1, max_size=8))
def test_both_count_the_same_types(messages: list[list[str]]) -> None:
    pair = Pair()
    pair.topic("T")
    pair.put(0, hot(b"first"))
    pair.turn(0)
    for number, pairs in enumerate(messages):
        flag = TX_PREPARED if "TRAN_MSG\x01true" in pairs else 0
        command = hot(b"x" * (number + 1), "\x02".join([KEY, *pairs]), sysFlag=flag)
        command.opaque = number + 1000
        pair.read(0, encode_frame(command))
    pair.turn()
    found = []
    for harness in pair.harnesses:
        harness.sink.stage.count_sent()
        sizes = harness.node.stats.message_sizes.items()
        found.append({key: (each.counts, each.total) for key, each in sizes})
    pair.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(examples(30)))
def test_both_count_the_same_messages_of_each_queue(seed: int) -> None:
    """Counts survive whatever makes the broker forget the topics, between any two reads."""
    rng = Random(seed)
    pair = Pair()
    pair.topic("T")
    pair.topic("U", queues=2)
    pair.put(0, hot(b"first"), hot(b"first", topic="U"))
    pair.turn(0)
    sent = 2
    for number in range(60):
        command = hot(b"x" * rng.randrange(1, 90), topic=rng.choice("TU"), queue_id=number % 2)
        command.opaque = number + 1000
        match rng.randrange(6):
            case 0:
                pair.topic(rng.choice("TV"), queues=rng.randrange(2, 9))
            case 1:
                for harness in pair.harnesses:
                    options = replace(harness.node.options, max_message_size=50_000 + number)
                    harness.node.adopt_options(options)
            case 2:
                for harness in pair.harnesses:
                    harness.sink.stage.count_sent()
            case 3:
                pair.turn(0)
            case _:
                pair.read(rng.randrange(3), encode_frame(command))
                sent += 1
                if pair.native.sink.stage.has_drafts:
                    pair.turn(0)  # else what the native code takes next would come before them
    pair.turn(0)
    found = []
    for harness in pair.harnesses:
        harness.sink.stage.count_sent()
        stats = harness.node.stats
        found.append(
            {(n, key): (item.value, item.times) for n in COUNTED for key, item in stats.items(n)}
        )
    pair.close()
    assert found[0] == found[1]
    assert sum(n for (name, _), (n, _) in found[0].items() if name == "QUEUE_PUT_NUMS") == sent
