"""A replica copies its master's tables: a master node answers a replica node, by hand."""

import pytest
from sim.kernel.disk import SimDisk
from tests.broker.become import become
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.requests.helpers import call

import epochmq.broker.state.stamps as stamps
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.group.metadata_sync import (
    AGAIN_MS,
    JAVA_PERIOD_MS,
    OFFSETS_AGAIN_MS,
    OPTIONAL,
    RETRY_MS,
    WATCHED,
    WATCHED_MS,
    FetchTable,
    ReplicaSync,
)
from epochmq.broker.group.replicated_tables import CopiedTable, Tables
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.serving.roles import Role
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.pop_bodies import MessageRequestMode
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import HELD, Command, Reply
from epochmq.wire.header import Header, encode_header
from epochmq.wire.table_parts import StampHeader

MASTER = "10.0.0.1:10911"
PERIOD = 1000


def answer_of(master: FakeNode, fetch: FetchTable, *, java: bool = False) -> Command:
    """What the master says at once, without waiting for news."""
    ext = None if java else fetch.command.ext
    kept = {name: text for name, text in (ext or {}).items() if name != "waitMillis"}
    reply = call(master, fetch.table.value, kept)
    assert isinstance(reply, Reply)
    header = encode_header(reply.header) if isinstance(reply.header, Header) and not java else {}
    body = reply.body
    assert isinstance(body, bytes)
    return Command(reply.code, ext=header, body=body)


class Pair:
    def __init__(self, *, java: bool = False) -> None:
        options = BrokerOptions(broker_name="b", broker_ip1="127.0.0.1")
        self.master = FakeNode(options)
        self.slave = FakeNode(options)
        become(self.slave, Role.SLAVE)
        self.java = java
        self.now = 0
        self.core = ReplicaSync(Tables(self.slave), PERIOD)
        self.core.follow(MASTER, 0)
        self.bytes = 0

    def round(self) -> list[CopiedTable]:
        """One round of questions, all answered; which tables were asked for."""
        fetches = self.core.due(self.now)
        for fetch in fetches:
            answer = answer_of(self.master, fetch, java=self.java)
            self.bytes += len(answer.body)
            self.core.answered(fetch, answer, self.now)
        return [fetch.table for fetch in fetches]

    def topic(self, name: str) -> None:
        self.master.topics.put(TopicConfig(name, 4, 4), WALL)


@pytest.fixture(params=[False, True], ids=["ours", "java"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(java=request.param)


def test_everything_comes_once_and_then_the_replica_is_ready(pair: Pair) -> None:
    """S15."""
    pair.topic("T")
    pair.master.groups.put(SubscriptionGroupConfig("G"), WALL)
    pair.master.offsets.commit("G", "T", 1, 77)
    pair.master.schedule.restore({2: 5})
    pair.master.request_modes.put(MessageRequestMode("T", "G", mode="POP"))
    assert not pair.core.ready
    assert set(pair.round()) == set(CopiedTable)
    assert pair.core.ready
    slave = pair.slave
    assert slave.topics.table == pair.master.topics.table
    assert slave.topics.version == pair.master.topics.version
    assert slave.groups.get("G") == pair.master.groups.get("G")
    assert slave.offsets.get("G", "T", 1) == 77
    assert slave.schedule.progress()[2] == 5
    assert slave.request_modes.get("T", "G") == MessageRequestMode("T", "G", mode="POP")
    assert slave.topics.dirty
    assert slave.offsets.dirty


def test_large_tables_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the replica is ready when all of them came, although the tables change meanwhile."""
    monkeypatch.setattr(stamps, "PART_BYTES", 4_000)
    pair = Pair()
    master, slave = pair.master, pair.slave
    for number in range(100):
        name = f"T{number}"
        pair.topic(name)
        master.groups.put(SubscriptionGroupConfig(f"G{number}"), WALL)
        master.groups.set_forbidden(f"G{number}", name, 4, WALL)
        master.offsets.commit(f"G{number}", name, 0, number)
        master.request_modes.put(MessageRequestMode(name, "G", mode="POP"))
        for queue_id in range(4):
            batch = QueueKey("G", name, queue_id)
            master.pop.orders.out(batch, None, (WALL, 60_000), [number], 0)
    rounds = 0
    while not pair.core.ready:
        sizes = pair.bytes
        pair.round()
        assert pair.bytes - sizes < 70_000
        rounds += 1
        if rounds == 3:
            assert "T50" not in slave.topics, "no part is applied alone"
            master.topics.delete("T1", WALL)
            master.groups.delete("G1", WALL)
            master.groups.set_forbidden("G2", "T2", 0, WALL)
            master.offsets.commit("G3", "T3", 0, 1_000)
    assert rounds >= 10
    pair.now += PERIOD
    pair.round()
    assert_equal_tables(pair)

    master.topics.delete("T5", WALL)
    pair.topic("T1")
    master.groups.delete("G5", WALL)
    master.groups.set_forbidden("G7", "T7", 0, WALL)
    master.groups.set_forbidden("G8", "T9", 4, WALL)
    master.groups.set_forbidden("no configuration", "T9", 4, WALL)
    master.offsets.commit("G3", "T3", 1, 7)
    pair.now += PERIOD
    sizes = pair.bytes
    pair.round()
    assert_equal_tables(pair)
    assert pair.bytes - sizes < 5_000, "changes cost their rows"

    slave.groups.touched.clear()
    master.groups.delete("no configuration", WALL)
    pair.now += PERIOD
    pair.round()
    assert_equal_tables(pair)
    assert list(slave.groups.touched) == ["no configuration"], "the replica saves the removal"


def assert_equal_tables(pair: Pair) -> None:
    master, slave = pair.master, pair.slave
    assert slave.topics.table == master.topics.table
    assert slave.topics.version == master.topics.version
    assert slave.groups.table == master.groups.table
    assert slave.groups.forbidden_table == master.groups.forbidden_table
    assert slave.groups.version == master.groups.version
    assert slave.offsets.table == master.offsets.table
    assert slave.request_modes.table == master.request_modes.table
    batches = [
        {key: set(rows) for key, rows in broker.pop.orders.content()["table"].items()}
        for broker in (master, slave)
    ]
    assert batches[0] == batches[1]


def test_a_replica_of_an_older_release_gets_whole_tables_of_topics() -> None:
    """It would remove all topics that a part does not have."""
    pair = Pair()
    for name in "TU":
        pair.topic(name)
    for code in (CopiedTable.TOPICS, CopiedTable.GROUPS):
        whole = call(pair.master, code.value, {})
        assert isinstance(whole, Reply)
        assert isinstance(whole.header, StampHeader)
        pair.topic(f"V{code.name}")
        pair.master.groups.put(SubscriptionGroupConfig(f"G{code.name}"), WALL)
        again = call(pair.master, code.value, {"sinceStamp": whole.header.stamp or ""})
        assert isinstance(again, Reply)
        assert isinstance(again.header, StampHeader)
        assert not again.header.delta
        assert len(again.body) > len(whole.body)


def test_what_the_master_deleted_goes_and_nothing_else(pair: Pair) -> None:
    """rocketmq#9804, #9984: there all of them went, for a moment or for good."""
    pair.topic("T")
    pair.topic("U")
    pair.round()
    pair.master.topics.delete("T", WALL)
    pair.now += JAVA_PERIOD_MS
    pair.round()
    assert "T" not in pair.slave.topics
    assert "U" in pair.slave.topics
    assert pair.slave.topics.system <= pair.slave.topics.table.keys()


def test_a_master_that_lost_its_tables_takes_nothing_away(pair: Pair) -> None:
    pair.topic("T")
    pair.master.groups.put(SubscriptionGroupConfig("G"), WALL)
    pair.master.offsets.commit("G", "T", 1, 77)
    pair.round()
    for table in (pair.master.topics, pair.master.groups, pair.master.offsets):
        table.table.clear()
        table.changes.renew(())
    pair.master.topics.step_version(WALL)
    pair.master.groups.version = pair.master.groups.version.next_version(WALL)
    pair.now += JAVA_PERIOD_MS
    pair.round()
    assert "T" in pair.slave.topics
    assert "G" in pair.slave.groups
    assert pair.slave.offsets.get("G", "T", 1) == 77


def test_a_master_of_an_older_release_has_no_modes(pair: Pair) -> None:
    for fetch in pair.core.due(pair.now):
        if fetch.table is CopiedTable.MODES:
            answer = Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="not supported")
        else:
            answer = answer_of(pair.master, fetch)
        pair.core.answered(fetch, answer, pair.now)
    assert pair.core.ready
    assert not [f for f in pair.core.due(pair.now + PERIOD) if f.table is CopiedTable.MODES]
    assert [f for f in pair.core.due(pair.now + JAVA_PERIOD_MS) if f.table is CopiedTable.MODES]


def test_offsets_may_go_back_with_the_master(pair: Pair) -> None:
    """An admin's reset reaches the replicas."""
    pair.master.offsets.commit("G", "T", 1, 77)
    pair.round()
    pair.master.offsets.reset("G", "T", 1, 5, WALL)
    pair.now += JAVA_PERIOD_MS
    pair.round()
    assert pair.slave.offsets.get("G", "T", 1) == 5


def test_a_second_copy_of_the_same_touches_nothing(pair: Pair) -> None:
    """rocketmq#9984: there the copying stepped the replica's own version, so that it was never the
    master's, and every round took all topics and groups away and added them again."""
    pair.topic("T")
    pair.master.groups.put(SubscriptionGroupConfig("G"), WALL)
    pair.round()
    slave = pair.slave
    topics, groups = slave.topics.table, slave.groups.table
    for _ in range(3):
        slave.topics.dirty = slave.groups.dirty = slave.request_modes.dirty = False
        pair.now += JAVA_PERIOD_MS
        pair.round()
        assert slave.topics.version == pair.master.topics.version
        assert slave.groups.version == pair.master.groups.version
        assert slave.topics.table is topics
        assert slave.groups.table is groups
        tables = (slave.topics, slave.groups, slave.request_modes)
        assert not any(table.dirty for table in tables)


def test_what_did_not_change_is_not_sent_again() -> None:
    pair = Pair()
    pair.topic("T")
    pair.master.offsets.commit("G", "T", 1, 77)
    pair.round()
    pair.bytes = 0
    pair.slave.topics.dirty = False
    pair.now += PERIOD
    assert set(pair.round()) == set(CopiedTable) - OPTIONAL
    assert pair.bytes == 0
    assert not pair.slave.topics.dirty


def test_of_offsets_only_what_changed_is_sent() -> None:
    pair = Pair()
    for number in range(100):
        pair.master.offsets.commit(f"G{number}", "T", 1, number)
    pair.round()
    pair.master.offsets.commit("G5", "T", 1, 1000)
    pair.bytes = 0
    pair.now += PERIOD
    pair.round()
    assert 0 < pair.bytes < 200
    assert pair.slave.offsets.get("G5", "T", 1) == 1000
    assert pair.slave.offsets.get("G6", "T", 1) == 6


def test_rows_that_the_master_dropped_go_here_too() -> None:
    pair = Pair()
    pair.master.offsets.commit("G", "T", 1, 77)
    pair.master.offsets.commit("H", "T", 1, 78)
    pair.round()
    pair.master.offsets.drop_group("G", WALL)
    pair.now += PERIOD
    pair.round()
    assert pair.slave.offsets.get("G", "T", 1) == -1
    assert pair.slave.offsets.get("H", "T", 1) == 78


def test_a_java_master_is_asked_as_seldom_as_upstreams_slaves_do() -> None:
    pair = Pair(java=True)
    pair.round()
    pair.now += JAVA_PERIOD_MS - 1
    assert pair.round() == []
    pair.now += 1
    assert set(pair.round()) == set(CopiedTable)


def test_another_master_is_copied_from_the_start() -> None:
    pair = Pair()
    pair.round()
    pair.core.follow(MASTER, 0)
    assert pair.core.ready
    pair.core.follow("10.0.0.2:10911", 0)
    assert not pair.core.ready
    assert all("sinceStamp" not in (fetch.command.ext or {}) for fetch in pair.core.due(0))


def test_answers_of_a_former_master_change_nothing() -> None:
    pair = Pair()
    pair.topic("T")
    late = pair.core.due(0)
    pair.core.follow("10.0.0.2:10911", 0)
    for fetch in late:
        pair.core.answered(fetch, answer_of(pair.master, fetch), 0)
    assert "T" not in pair.slave.topics


def test_answers_from_before_it_stood_in_change_nothing() -> None:
    """Found by the simulator: a cut held the answer back, and its master's disk was lost."""
    pair = Pair()
    pair.topic("T")
    late = pair.core.due(0)
    pair.core.stop()
    pair.core.follow(MASTER, 0)
    asked = pair.core.due(0)
    for fetch in late:
        pair.core.answered(fetch, answer_of(pair.master, fetch), 0)
        pair.core.failed(fetch, "no answer", 0)
    assert "T" not in pair.slave.topics
    assert pair.core.problem == ""
    assert pair.core.due(60_000) == []  # the questions of now are still out
    for fetch in asked:
        pair.core.answered(fetch, answer_of(pair.master, fetch), 0)
    assert pair.core.ready
    assert "T" in pair.slave.topics


def test_answers_from_before_the_masters_return_change_nothing() -> None:
    """Found by the simulator: a cut held the answer of a process back that had died meanwhile."""
    pair = Pair()
    pair.topic("T")
    pair.round()
    pair.now = OFFSETS_AGAIN_MS
    (late,) = [f for f in pair.core.due(pair.now) if f.table is CopiedTable.OFFSETS]
    pair.master.offsets.commit("G", "T", 0, 2)
    said = answer_of(pair.master, late)
    pair.core.drop_open_questions(pair.now)
    pair.core.answered(late, said, pair.now)
    assert pair.slave.offsets.get("G", "T", 0) == -1
    assert pair.core.ready
    assert pair.core.next_deadline() == pair.now + RETRY_MS
    pair.now += RETRY_MS
    assert CopiedTable.OFFSETS in pair.round()
    assert pair.slave.offsets.get("G", "T", 0) == 2


def test_failures_are_tried_again_ever_more_slowly() -> None:
    pair = Pair()
    tries = 0
    for now in range(10_000):
        for fetch in pair.core.due(now):
            tries += fetch.table is CopiedTable.TOPICS
            pair.core.failed(fetch, "refused", now)
    assert 8 <= tries <= 14
    assert pair.core.problem == "refused"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"offsetTable":7}', b'{"offsetTable":{"a":3}}']
)
def test_garbage_changes_nothing_and_is_told(body: bytes) -> None:
    pair = Pair()
    pair.slave.offsets.commit("G", "T", 1, 77)
    for fetch in pair.core.due(0):
        pair.core.answered(fetch, Command(0, body=body), 0)
    assert pair.slave.offsets.get("G", "T", 1) == 77
    assert not pair.core.ready
    assert pair.core.problem


def with_timer(node: FakeNode) -> TimerService:
    made = TimerService(
        SimDisk(), node.store, node.internal_writer, lambda: node.options, lambda: (0, 0)
    )
    node.timer = made
    return made


def test_the_timers_progress_comes_as_well(pair: Pair) -> None:
    master, slave = with_timer(pair.master), with_timer(pair.slave)
    master.driver.core.restore(WALL, 7, 7, 0)
    master.driver.metrics.add(["T"], 3, WALL)
    pair.round()
    assert pair.core.ready
    core = slave.driver.core
    assert (core.done_ms, core.covered, core.cursor) == (WALL, 7, 0)
    assert slave.driver.metrics.counts == master.driver.metrics.counts
    assert slave.driver.metrics.dirty
    pair.bytes = 0
    pair.now += JAVA_PERIOD_MS
    assert set(pair.round()) == set(CopiedTable)
    assert pair.java or pair.bytes == 0
    become(pair.slave, Role.MASTER)  # from now on its own word counts
    master.driver.core.restore(WALL + 1000, 9, 9, 0)
    pair.now += JAVA_PERIOD_MS
    pair.round()
    assert core.done_ms == WALL


def test_a_master_without_a_timer_keeps_nobody_waiting() -> None:
    pair = Pair()
    with_timer(pair.slave)
    pair.round()
    assert pair.core.ready
    assert pair.core.problem == ""


def test_a_master_does_not_take_delays_from_anybody() -> None:
    pair = Pair()
    pair.master.schedule.restore({2: 5})
    become(pair.slave, Role.MASTER)
    pair.round()
    assert pair.slave.schedule.progress()[2] == 0


def test_stopped_it_asks_nothing() -> None:
    pair = Pair()
    pair.core.stop()
    assert pair.core.due(10_000) == []
    assert pair.core.next_deadline() is None


def test_where_the_master_waits_for_news_the_next_question_follows_at_once() -> None:
    pair = Pair()
    pair.round()
    pair.now = AGAIN_MS
    (topics,) = [f for f in pair.core.due(pair.now) if f.table is CopiedTable.TOPICS]
    assert (topics.command.ext or {})["waitMillis"] == str(WATCHED_MS)
    pair.now += WATCHED_MS  # kept for as long as it was allowed to
    pair.core.answered(topics, answer_of(pair.master, topics), pair.now)
    assert pair.core.next_deadline() is not None
    pair.now += AGAIN_MS
    (topics,) = [f for f in pair.core.due(pair.now) if f.table is CopiedTable.TOPICS]
    # Answered at once that nothing changed: a master that does not wait. Not in a tight loop.
    pair.core.answered(topics, answer_of(pair.master, topics), pair.now)
    assert not [f for f in pair.core.due(pair.now + PERIOD - 1) if f.table is CopiedTable.TOPICS]


def test_changes_wait_for_a_replica_from_its_first_question_on() -> None:
    pair = Pair()
    for fetch in pair.core.due(0):
        fields = fetch.command.ext or {}
        waits = {"waitMillis": str(WATCHED_MS)} if fetch.table in WATCHED else {}
        assert fields == {"inParts": "true", **waits}


def test_offsets_are_asked_for_a_moment_after_they_changed() -> None:
    """INV-29: what a dead master was told last is known elsewhere soon."""
    pair = Pair()
    pair.round()
    assert not [f for f in pair.core.due(OFFSETS_AGAIN_MS - 1) if f.table is CopiedTable.OFFSETS]
    (offsets,) = [f for f in pair.core.due(OFFSETS_AGAIN_MS) if f.table is CopiedTable.OFFSETS]
    assert (offsets.command.ext or {})["waitMillis"] == str(WATCHED_MS)
    assert call(pair.master, offsets.table.value, offsets.command.ext) is HELD
    pair.master.offsets.commit("G", "T", 0, 7, 0)
    pair.core.answered(offsets, answer_of(pair.master, offsets), OFFSETS_AGAIN_MS)
    assert pair.slave.offsets.get("G", "T", 0) == 7


def test_a_refusal_and_silence_are_tried_again_and_told() -> None:
    pair = Pair()
    fetches = pair.core.due(0)
    pair.core.answered(fetches[0], Command(1, remark="busy"), 0)
    assert pair.core.problem == f"{MASTER}: 1 busy"
    pair.core.failed(fetches[1], "no answer", 0)
    assert pair.core.problem == "no answer"
    pair.core.failed(FetchTable("another:1", fetches[2].table, fetches[2].command), "old", 0)
    assert pair.core.problem == "no answer"
    assert pair.core.statistics()["came"] == 0
    deadline = pair.core.next_deadline()
    assert deadline is not None
    assert {fetch.table for fetch in pair.core.due(deadline)} >= {fetches[0].table}
