"""What a returning master takes over from a slave, table by table."""

import dataclasses

import pytest
from sim.kernel.disk import SimDisk
from tests.broker.become import become
from tests.broker.fake_node import WALL, FakeNode
from tests.broker.requests.helpers import answer

from epochmq.base.errors import PeerError
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.group.pre_online_peers import TAKEN, Merge
from epochmq.broker.group.replicated_tables import CopiedTable, decoder_of
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.requests.topic_handlers import delete_topic
from epochmq.broker.serving.roles import Role
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.pop_bodies import MessageRequestMode


def merge(node: FakeNode, table: CopiedTable, body: bytes, wall: int = WALL) -> None:
    Merge(node).merge_table(table, decoder_of(table)(body), wall)


class Two:
    """A returning master and the slave that acted for it; both begin with the same tables."""

    def __init__(self) -> None:
        options = BrokerOptions(broker_name="b", broker_ip1="127.0.0.1")
        self.master, self.slave = FakeNode(options), FakeNode(options)
        for node in (self.master, self.slave):
            node.topics.put(TopicConfig("T", 4, 4), WALL)
            node.groups.put(SubscriptionGroupConfig("g"), WALL)
            node.timer = TimerService(
                SimDisk(),
                node.store,
                node.internal_writer,
                lambda node=node: node.options,
                lambda: (0, 0),
            )
            for queue_id in range(2):
                node.fake.put("T", queue_id, *[b"x"] * 90)
            for level in (1, 2, 3):
                node.fake.put(SCHEDULE_TOPIC, level - 1, *[b"x"] * 10)
        become(self.master, Role.PRE_ONLINE)

    def take(self, *tables: CopiedTable) -> None:
        for table in tables or TAKEN:
            reply = answer(self.slave, table.value)
            assert reply.code == 0, reply.remark
            assert isinstance(reply.body, bytes)
            merge(self.master, table, reply.body, WALL + 5_000)


@pytest.fixture
def two() -> Two:
    return Two()


def test_offsets_of_each_queue_are_the_further_ones(two: Two) -> None:
    """H6: with upstream's stepped versions one side would win everything."""
    for queue_id, (ours, theirs) in enumerate([(50, 70), (90, 70)]):
        two.master.offsets.commit("g", "T", queue_id, ours)
        two.slave.offsets.commit("g", "T", queue_id, theirs)
    two.master.offsets.commit("only ours", "T", 0, 1)
    two.slave.offsets.commit("only theirs", "T", 0, 2)
    old = two.master.offsets.version
    two.take()
    offsets = two.master.offsets
    assert offsets.row("g", "T") == {0: 70, 1: 90}
    assert offsets.get("only ours", "T", 0) == 1
    assert offsets.get("only theirs", "T", 0) == 2
    assert offsets.version > max(old, two.slave.offsets.version)
    assert offsets.dirty


def test_what_an_admin_set_back_stays_back(two: Two) -> None:
    two.master.offsets.commit("g", "T", 0, 90)
    two.master.offsets.commit("g", "T", 1, 90)
    two.slave.offsets.adopt(two.master.offsets.content(), whole=True)
    two.slave.offsets.reset("g", "T", 0, 10, WALL)
    two.slave.offsets.commit("g", "T", 0, 15)
    two.master.offsets.reset("g", "T", 1, 20, WALL)
    two.take(CopiedTable.OFFSETS)
    assert two.master.offsets.row("g", "T") == {0: 15, 1: 20}
    two.take(CopiedTable.OFFSETS)
    assert two.master.offsets.row("g", "T") == {0: 15, 1: 20}


def test_offsets_of_a_topic_that_was_created_again_meanwhile_are_not_taken(two: Two) -> None:
    """The slave acted as master; it was away while an operator deleted and created the topic."""
    for node in (two.master, two.slave):
        node.offsets.commit("g", "T", 0, 80)
        node.offsets.commit("g", "T", 1, 80)
    two.slave.offsets.commit("g", "T", 0, 90)
    out = QueueKey("g", "T", 1)
    two.slave.pop.orders.out(out, None, (WALL - 1, 60_000), [80, 81], 0)
    delete_topic(two.master, "T")
    two.master.topics.put(TopicConfig("T", 4, 4), WALL)
    two.master.fake.put("T", 0, *[b"x"] * 95)
    two.master.offsets.commit("g", "T", 0, 2)
    two.take()
    assert two.master.offsets.row("g", "T") == {0: 2}
    become(two.master, Role.MASTER)
    assert two.master.pop.orders.statistics() == {"ordered": 0}
    assert two.master.offsets.row("g", "T") == {0: 2}


def test_no_offset_is_taken_that_no_message_of_the_masters_log_has(two: Two) -> None:
    """Told by RocketMQ's slaves, who know nothing of deletions."""
    two.slave.offsets.commit("g", "T", 0, 91)
    two.slave.offsets.commit("g", "T", 1, 90)
    two.take(CopiedTable.OFFSETS)
    assert two.master.offsets.row("g", "T") == {1: 90}


def test_a_slave_whose_log_lags_takes_every_offset() -> None:
    """From another slave, which acts as master: the messages come."""
    options = BrokerOptions(broker_name="b", broker_ip1="127.0.0.1")
    slave = FakeNode(dataclasses.replace(options, broker_id=2, broker_role="SLAVE"))
    merge(slave, CopiedTable.OFFSETS, b'{"offsetTable":{"T@g":{0:9}}}')
    assert slave.offsets.row("g", "T") == {0: 9}


def test_delay_levels_that_the_slave_delivered_are_not_delivered_again(two: Two) -> None:
    two.master.schedule.restore({1: 2, 2: 7})
    two.slave.schedule.restore({1: 6, 2: 3, 3: 99})
    two.take(CopiedTable.DELAYS)
    progress = two.master.schedule.progress()
    assert [progress[level] for level in (1, 2, 3)] == [6, 7, 10]
    assert two.master.delay_offsets.dirty


def test_the_timers_check_point_is_taken_if_it_covers_ours(two: Two) -> None:
    assert two.master.timer is not None
    assert two.slave.timer is not None
    ours, theirs = two.master.timer.driver.core, two.slave.timer.driver.core
    ours.restore(WALL, 7, 7, 0)
    theirs.restore(WALL + 9_000, 6, 6, 0)
    two.take(CopiedTable.TIMER)
    assert ours.done_ms == WALL
    theirs.restore(WALL + 9_000, 8, 8, 0)
    two.take(CopiedTable.TIMER)
    assert (ours.done_ms, ours.covered) == (WALL + 9_000, 8)
    two.master.timer = None
    two.take(CopiedTable.TIMER)


def test_the_count_of_waiting_messages_is_of_the_last_deliverer(two: Two) -> None:
    assert two.master.timer is not None
    assert two.slave.timer is not None
    ours, theirs = two.master.timer.driver.metrics, two.slave.timer.driver.metrics
    ours.add(["T", "T"], 1, WALL)
    ours.step_version(WALL)
    theirs.add(["T"], 1, WALL)
    two.take(CopiedTable.TIMER_METRICS)
    assert ours.counts["T"].count == 2
    for _ in range(2):
        theirs.step_version(WALL)
    two.take(CopiedTable.TIMER_METRICS)
    assert ours.counts["T"].count == 1
    assert ours.version > theirs.version
    assert ours.dirty
    two.master.timer = None
    two.take(CopiedTable.TIMER_METRICS)


def test_ordered_batches_that_were_out_at_the_slave_are_out(two: Two) -> None:
    key, other = QueueKey("g", "T", 0), QueueKey("g", "T", 1)
    ours, theirs = two.master.pop.orders, two.slave.pop.orders
    ours.out(key, None, (WALL, 1_000), [5], 0)
    ours.out(other, None, (WALL, 9_000), [50], 0)
    theirs.out(key, None, (WALL + 9, 5_000), [6], 0)
    theirs.out(other, None, (WALL + 9, 2_000), [3], 0)
    two.master.offsets.commit("g", "T", 1, 50)
    two.slave.offsets.reset("g", "T", 1, 3, WALL + 5)
    two.take()
    assert ours.ack(key, 6, WALL + 9) == 7
    assert ours.ack(other, 3, WALL + 9) == 4  # what a reset ended does not win
    assert ours.version > theirs.version
    become(two.master, Role.MASTER)
    assert two.master.offsets.get("g", "T", 1) == 4


def test_a_newer_table_of_topics_adds_and_takes_nothing_away(two: Two) -> None:
    """A Java slave steps its own version without a reason."""
    two.slave.topics.put(TopicConfig("THEIRS", 2, 2), WALL)
    two.slave.topics.put(TopicConfig("T", 8, 8), WALL)
    two.master.topics.table["OURS"] = TopicConfig("OURS", 1, 1)
    two.slave.groups.put(SubscriptionGroupConfig("theirs"), WALL)
    two.slave.groups.set_forbidden("g", "T", 4, WALL)
    two.master.groups.table["ours"] = SubscriptionGroupConfig("ours")
    two.take()
    topics, groups = two.master.topics, two.master.groups
    assert {"OURS", "THEIRS"} <= topics.table.keys()
    assert topics.table["T"].read_queue_nums == 8
    assert {"ours", "theirs", "g"} <= groups.table.keys()
    assert groups.forbidden("g", "T") == 4
    assert topics.version > two.slave.topics.version
    assert groups.version > two.slave.groups.version


def test_an_older_table_of_topics_changes_nothing(two: Two) -> None:
    become(two.master, Role.MASTER)
    two.master.topics.put(TopicConfig("T", 8, 8), WALL)
    two.master.groups.put(SubscriptionGroupConfig("new"), WALL)
    become(two.master, Role.PRE_ONLINE)
    topics, groups = two.master.topics.table, two.master.groups.table
    two.take()
    assert two.master.topics.table is topics
    assert two.master.groups.table is groups


def test_only_request_modes_that_we_lack_are_taken(two: Two) -> None:
    two.master.request_modes.put(MessageRequestMode("T", "g", mode="PULL"))
    two.slave.request_modes.put(MessageRequestMode("T", "g", mode="POP"))
    two.slave.request_modes.put(MessageRequestMode("T", "h", mode="POP"))
    two.take(CopiedTable.MODES)
    modes = two.master.request_modes.table["T"]
    assert [modes[group].mode for group in "gh"] == ["PULL", "POP"]


@pytest.mark.parametrize(
    ("table", "body"),
    [(table, body) for table in TAKEN for body in (b"", b"[]")]
    + [(table, b'{"offsetTable":7}') for table in (CopiedTable.OFFSETS, CopiedTable.DELAYS)],
)
def test_garbage_is_told(two: Two, table: CopiedTable, body: bytes) -> None:
    before = two.master.offsets.encode(), two.master.topics.encode(), two.master.groups.encode()
    with pytest.raises((PeerError, ValueError, TypeError)):
        merge(two.master, table, body)
    after = two.master.offsets.encode(), two.master.topics.encode(), two.master.groups.encode()
    assert after == before
