"""Pulls that the native code answers: the same bytes, and the same effects, as without it."""

import ctypes
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.auth_harness import AuthHarness
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness, Client, pull, send
from tests.store.store_internals import flip_bit

from epochmq.base import limits
from epochmq.base.ports import Buffer
from epochmq.broker.consume.client_tables import ClientMember, Manner
from epochmq.broker.requests import native_pulls
from epochmq.broker.serving.roles import Role
from epochmq.model.group import SubscriptionGroupConfig, build
from epochmq.model.names import retry_topic
from epochmq.model.record import decode_all
from epochmq.model.topic import TopicConfig
from epochmq.native import library
from epochmq.native.memory import NativeMemory
from epochmq.store import pull_answers
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, encode_frame
from epochmq.wire.headers.fast_headers import PullEnvelope, decode_hot

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

ALL = 4
QUEUES = (("T", 0), ("T", 1), ("U", 0))


class PullPair:
    """Two brokers with the same messages: one is asked as a connection does, one never natively."""

    def __init__(self, **options: Any) -> None:
        self.native, self.plain = BrokerHarness(**options), BrokerHarness(**options)
        self.harnesses = self.native, self.plain
        for harness in self.harnesses:
            harness.topic("T")
            harness.topic("U", queues=2)
            harness.node.groups.put(SubscriptionGroupConfig("G"), harness.clock.wall)
        self.clients = [self._consumer(harness) for harness in self.harnesses]

    def _consumer(self, harness: BrokerHarness) -> Client:
        client = harness.client()
        client.ask(pull(queue_id=3))  # from now on its requests are offered to the native code
        return client

    def fill(self, seed: int = 0, messages: int = 200, size_max: int = 900) -> None:
        rng = Random(f"pulls {seed}")
        for _ in range(messages):
            topic, queue_id = rng.choice((("T", 0), ("T", 0), ("T", 1), ("U", 0)))
            request = send(
                rng.randbytes(rng.randrange(1, size_max)), topic=topic, queue_id=queue_id
            )
            for harness in self.harnesses:
                harness.client().put(request)
            if rng.random() < 0.4:
                self.turn()
        self.turn()
        self.find_floors()

    def find_floors(self) -> None:
        """The first read of a queue finds where it begins, which is not for the native code."""
        for harness in self.harnesses:
            for queue in QUEUES:
                harness.store.queue_bounds(*queue)

    def turn(self) -> None:
        for harness in self.harnesses:
            harness.turn()

    def ask(self, *requests: Command) -> int:
        """Send the same requests to both; they give the same answers. Return how many bytes the
        native code took.
        """
        return self.ask_bytes(b"".join(map(encode_frame, requests)))

    def ask_bytes(self, data: bytes) -> int:
        native, plain = self.clients
        taken = native.put_raw(data)
        plain.harness.sink.receive(plain.session, plain.reader.feed(data), plain.harness.clock.now)
        answers = [b"".join(map(bytes, client.session.pop_outbox())) for client in self.clients]
        assert answers[0] == answers[1]
        assert self.effects(self.native) == self.effects(self.plain)
        return taken

    @staticmethod
    def effects(harness: BrokerHarness) -> object:
        """What pulls leave behind."""
        node = harness.node
        reached = [node.stats.pulled_to(*queue, "G") for queue in QUEUES]
        committed = [node.offsets.get("G", *queue) for queue in QUEUES]
        counts = node.stats.pull_hits.total, node.stats.pull_misses.total
        times = [(kind, each.counts, each.total) for kind, each in node.request_times.items()]
        return reached, committed, counts, times, harness.store.statistics(), len(node.long_poll)


@pytest.fixture
def pair() -> PullPair:
    pair = PullPair()
    pair.fill()
    return pair


def size_of(*requests: Command) -> int:
    return sum(len(encode_frame(request)) for request in requests)


def test_a_usual_pull_is_answered_natively(pair: PullPair) -> None:
    request = pull(offset=3, count=16, commit=2, sys_flag=ALL | 1)
    assert pair.ask(request) == size_of(request)
    requests = [pull(topic="T", queue_id=1), pull(topic="U", offset=1), pull(count=1)]
    assert pair.ask(*requests) == size_of(*requests)


@pytest.mark.parametrize("seed", range(8))
def test_random_pulls_get_the_same_answers(seed: int) -> None:
    rng = Random(f"native pulls {seed}")
    pair = PullPair(
        max_transfer_count_on_message_in_memory=rng.choice((32, 3)),
        max_transfer_bytes_on_message_in_memory=rng.choice((1 << 18, 1500)),
    )
    pair.fill(seed)
    taken = 0
    for number in range(150):
        requests = [a_pull(rng) for _ in range(rng.choice((1, 1, 1, 3)))]
        for request in requests:
            request.opaque = rng.choice((number + 1, -number, 2**31 - 1))
        taken += pair.ask(*requests) > 0
    assert taken > 10


def a_pull(rng: Random) -> Command:
    """A pull, mostly a usual one."""
    odd = rng.random() < 0.3
    return pull(
        topic=rng.choice(("T", "T", "T", "U", "none")) if odd else "T",
        queue_id=rng.choice((0, 1, 3, 4, -1)) if odd else rng.choice((0, 1)),
        offset=rng.choice((rng.randrange(40), rng.randrange(200), -1, 2**62)),
        group=rng.choice(("G", "none")) if odd else "G",
        count=rng.choice((32, 1, 5, 0, -1, 600)),
        sys_flag=ALL | rng.choice((0, 1, 2, 3)),
        commit=rng.choice((-1, 0, 7)),
        expression=rng.choice(("*", "*", "A", None, "")) if odd else "*",
        kind=rng.choice(("TAG", None, "SQL92")) if odd else "TAG",
        suspend_ms=rng.choice((0, 15_000)),
        code=rng.choice((11, 11, 361)) if odd else Code.PULL_MESSAGE,
        binary=odd and rng.random() < 0.2,
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.groups.put(
            SubscriptionGroupConfig("G", consume_enable=False), node.clock.wall_ms()
        ),
        lambda node: node.groups.set_forbidden("G", "T", 1 << 2, node.clock.wall_ms()),
        lambda node: node.topics.delete("T", node.clock.wall_ms()),
        lambda node: node.topics.put(TopicConfig("T", 4, 4, perm=2), node.clock.wall_ms()),
        lambda node: node.offsets.reset("G", "T", 0, 1, node.clock.wall_ms()),
        lambda node: node.offsets.delivered_resets.add("G", "T", 0, 1, node.clock.now_ms()),
        lambda node: become(node, Role.FENCED),
        lambda node: become(node, Role.SLAVE),
    ],
    ids=[
        "group may not consume",
        "forbidden",
        "no topic",
        "topic not readable",
        "reset offset",
        "delivered reset",
        "fenced",
        "slave",
    ],
)
def test_changes_hold_from_the_next_pull_on(pair: PullPair, change: Any) -> None:
    assert pair.ask(pull()) > 0
    for harness in pair.harnesses:
        change(harness.node)
        harness.turn()
    assert pair.ask(pull(), pull()) == 0


@pytest.mark.parametrize(
    "option", [{"slave_read_enable": True}, {"broker_permission": 2}], ids=["slave", "permission"]
)
def test_options_that_need_the_general_way(option: dict[str, Any]) -> None:
    pair = PullPair(**option)
    pair.fill()
    assert pair.ask(pull()) == 0


def test_the_lease_ends_between_two_pulls_of_a_read(
    pair: PullPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for harness in pair.harnesses:
        commit = harness.node.offsets.commit

        def end_lease(*args: Any, harness: BrokerHarness = harness, commit: Any = commit) -> None:
            commit(*args)
            harness.node.serving.lease_until_ms = harness.clock.now

        monkeypatch.setattr(harness.node.offsets, "commit", end_lease)
    requests = pull(sys_flag=ALL | 1, commit=1), pull()
    assert pair.ask(*requests) == size_of(requests[0])


def test_signed_pulls_are_checked_in_python() -> None:
    harness = AuthHarness()
    harness.topic("T")
    client = harness.client()
    for _ in range(3):
        request = pull()
        request.opaque = client.opaque = client.opaque + 1
        assert client.put_raw(encode_frame(request)) == 0
        harness.turn()
        assert [answer.code for answer in client.take()] == [ResponseCode.NO_PERMISSION]


@pytest.mark.parametrize(
    ("expression", "version", "is_native"), [("*", 5, True), ("A", 5, False), ("*", 4, False)]
)
def test_a_subscription_from_the_heartbeat(
    pair: PullPair, expression: str, version: int, is_native: bool
) -> None:
    for harness, client in zip(pair.harnesses, pair.clients, strict=True):
        wanted = build("T", expression, "TAG", version)
        member = ClientMember(client.session, "client", "JAVA", 401, 0)
        harness.node.consumers.heartbeat("G", member, Manner(), [wanted])
    assert (pair.ask(pull(sys_flag=0, expression=None, sub_version=5)) > 0) == is_native
    assert pair.ask(pull(topic="U", sys_flag=0, expression=None)) == 0


def test_a_group_that_may_not_broadcast(pair: PullPair) -> None:
    for harness, client in zip(pair.harnesses, pair.clients, strict=True):
        config = SubscriptionGroupConfig("G", consume_broadcast_enable=False)
        harness.node.groups.put(config, harness.clock.wall)
        member = ClientMember(client.session, "client", "JAVA", 401, 0)
        manner = Manner(message_model="BROADCASTING")
        harness.node.consumers.heartbeat("G", member, manner, [build("T", "*", "TAG", 0)])
    assert pair.ask(pull(sys_flag=0, expression=None)) == 0


def test_damaged_bytes_are_refused(pair: PullPair) -> None:
    for harness in pair.harnesses:
        place = harness.store.units("T", 0, 2, 1)[0][0]
        harness.store.damage.report(place, place + 1, "a test")
    assert pair.ask(pull()) == 0
    assert pair.ask(pull(offset=2)) == 0


def test_a_record_that_changed_is_found(pair: PullPair) -> None:
    for harness in pair.harnesses:
        flip_bit(harness.store, harness.store.units("T", 0, 2, 1)[0][0] + 4)
    assert pair.ask(pull(offset=2)) == 0


def test_messages_of_an_earlier_run_are_checked() -> None:
    pair = PullPair()
    pair.fill()
    for harness in pair.harnesses:
        harness.store.close(harness.clock.wall)
    pair.native = BrokerHarness(disk=pair.native.disk)
    pair.plain = BrokerHarness(disk=pair.plain.disk)
    pair.harnesses = pair.native, pair.plain
    for harness in pair.harnesses:
        harness.topic("T")
        harness.node.groups.put(SubscriptionGroupConfig("G"), harness.clock.wall)
    pair.clients = [pair._consumer(harness) for harness in pair.harnesses]
    old = pair.native.store.queue_bounds("T", 0)[1]
    pair.fill(1, 50)
    assert pair.ask(pull(offset=old - 1)) == 0
    assert pair.ask(pull(offset=old)) > 0


def test_a_pull_sees_the_sends_before_it(pair: PullPair) -> None:
    """A client that sends and then pulls at the end of the queue gets its message."""
    end = pair.native.store.queue_bounds("T", 0)[1]
    for requests in (
        [send(b"one"), pull(offset=end)],
        [send(b"two")],
        [pull(offset=end + 1)],
        [send(b"three")],
        [pull()],  # its answer tells where the queue ends
    ):
        for number, request in enumerate(requests):
            request.opaque = number + 1
        pair.ask(*requests)
    assert pair.native.store.queue_bounds("T", 0)[1] == end + 3


def test_names_are_kept_in_bounds(pair: PullPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_pulls, "NAMES_KEPT_MAX", 2)
    pulls = native_pulls.NativePulls.make(pair.native.node, pair.native.sink.pulls)
    assert pulls is not None
    client = pair.native.client()
    for number in range(5):
        data = memoryview(bytearray(encode_frame(pull(group=f"none{number}"))))
        assert pulls.receive(client.session, data, 0, len(data)) == 0
        assert len(pulls._names) <= 2


@pytest.mark.parametrize("is_native", [True, False])
def test_the_copies_of_a_turn_are_bounded(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pulls one read holds: beyond a limit the answers are views of the log."""
    monkeypatch.setattr(limits, "PULL_COPIES_BYTES_MAX", 50_000)
    monkeypatch.setattr(limits, "PULL_VIEWS_MAX", 20)
    pair = PullPair()
    pair.fill(messages=300)
    client = pair.clients[0]
    requests = [pull(count=32) for _ in range(60)]
    for _turn in range(2):
        for number, request in enumerate(requests):
            request.opaque = number + 1
        if is_native:
            client.put_raw(b"".join(map(encode_frame, requests)))
        else:
            client.put(*requests)
        outbox = client.session.outbox
        total = sum(map(len, outbox))
        copied = sum(len(chunk) for chunk in outbox if owns_bytes(chunk))
        answers = client.take()
        counts = [len(decode_all(bytes(answer.body))) for answer in answers]
        first = counts.index(20)
        assert counts == [32] * first + [20] * (60 - first)
        assert all(answers[0].body.startswith(answer.body) for answer in answers)
        one = len(answers[0].body)
        assert 50_000 <= copied < 50_000 + one + 60 * 300 < total
        pair.turn()


def test_more_pulls_than_a_turn_can_answer_are_refused(
    pair: PullPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PULL_COPIES_BYTES_MAX", 1)
    monkeypatch.setattr(limits, "PULL_VIEWS_IN_TURN_MAX", 20)
    for _turn in range(2):
        pair.ask(*[pull(count=8) for _ in range(3)])
        for client in pair.clients:
            requests = [pull(count=8, offset=number) for number in range(3)]
            for number, request in enumerate(requests):
                request.opaque = number + 1
            client.put(*requests)
            codes = [answer.code for answer in client.take()]
            assert codes == [0, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY]
        pair.turn()


def owns_bytes(chunk: Buffer) -> bool:
    """Whether a chunk of an answer has memory of its own; others are views of a log file."""
    return isinstance(chunk, bytes) or isinstance(memoryview(chunk).obj, bytes)


def test_large_answers_are_left_to_views(pair: PullPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_answers, "BODY_BYTES_MAX", 1000)
    pair = PullPair()
    pair.fill(size_max=300)
    assert pair.ask(pull()) == 0
    assert pair.ask(pull(count=2)) > 0


# Reading the request -------------------------------------------------------------------------

NAMES = (
    "consumerGroup",
    "topic",
    "queueId",
    "queueOffset",
    "maxMsgNums",
    "sysFlag",
    "commitOffset",
    "suspendTimeoutMillis",
    "subscription",
    "subVersion",
    "expressionType",
    "maxMsgBytes",
    "bname",
)
VALUES = st.sampled_from(
    [
        "G",
        "T",
        "*",
        "TAG",
        "0",
        "1",
        "4",
        "7",
        "-1",
        "01",
        "1.0",
        "9223372036854775808",
        "",
        "é",
        'q"',
        None,
        5,
        True,
    ]
)
USUAL = {
    "consumerGroup": "G",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "5",
    "maxMsgNums": "7",
    "sysFlag": "5",
    "commitOffset": "3",
    "suspendTimeoutMillis": "15000",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}


@given(
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.sampled_from([11, 11, 11, 361, 310]),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.integers(-(2**31), 2**31 - 1),
    st.randoms(use_true_random=False),
)
def test_both_decoders_read_the_same(
    changed: dict[str, Any], left_out: list[str], code: int, flag: int, opaque: int, rng: Any
) -> None:
    ext = {name: value for name, value in {**USUAL, **changed}.items() if name not in left_out}
    names = list(ext)
    rng.shuffle(names)
    head = {
        "code": code,
        "extFields": {name: ext[name] for name in names},
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "version": 401,
    }
    header = msgspec.json.encode(head)
    read = native_read(header)
    if read is None:
        return
    envelope = decode_hot(header)
    assert isinstance(envelope, PullEnvelope)
    fields = envelope.extFields
    assert envelope.flag == 0
    assert read == (
        envelope.opaque,
        fields.queueId,
        fields.queueOffset,
        fields.maxMsgNums,
        fields.sysFlag,
        fields.commitOffset,
        fields.subVersion,
        f"{fields.consumerGroup}\0{fields.topic}".encode(),
    )
    if fields.sysFlag & ALL:
        assert fields.subscription == "*"
        assert fields.expressionType in ("TAG", None)


def test_a_field_that_comes_twice_is_left_to_python() -> None:
    header = msgspec.json.encode({"code": 11, "extFields": USUAL, "opaque": 9, "flag": 0})
    assert native_read(header.replace(b'"queueId":"0"', b'"queueId":"0","queueId":"1"')) is None


def test_the_usual_request_is_read() -> None:
    header = msgspec.json.encode({"code": 11, "extFields": USUAL, "opaque": 9, "flag": 0})
    assert native_read(header) == (9, 0, 5, 7, 5, 3, 0, b"G\0T")
    assert native_read(header, b"body") is None
    assert native_read(header, binary=True) is None
    long = msgspec.json.encode(
        {"code": 11, "extFields": {**USUAL, "topic": retry_topic("x" * 300)}, "opaque": 9}
    )
    assert native_read(long) is None


def native_read(header: bytes, body: bytes = b"", *, binary: bool = False) -> object:
    """What the native code reads of a frame; None if it leaves the frame to Python."""
    native, place = library.library(), NativeMemory(native_pulls.MIRRORED["pull"])
    assert native is not None
    size = 4 + len(header) + len(body)
    frame = size.to_bytes(4, "big") + (binary << 24 | len(header)).to_bytes(4, "big")
    data = bytearray(frame + header + body)
    buffer = ctypes.c_char.from_buffer(data)
    used = native.read_pull(place.address, ctypes.addressof(buffer), len(data))
    if not used:
        return None
    assert used == len(data)
    *numbers, names_size = native_pulls.FIELDS.unpack_from(place.view)
    names = bytes(place.view[native_pulls.NAMES_AT :][:names_size])
    return (*numbers, names)
