"""Taking a master's tables over; the whole exchange is in test_core.py."""

import pytest
from tests.broker.become import become
from tests.broker.fake_node import WALL, FakeNode

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.group.replicated_tables import CopiedTable, Tables, decoder_of
from epochmq.broker.serving.roles import Role
from epochmq.model.topic import TopicConfig
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.command import Command
from epochmq.wire.table_parts import TableParts


def apply(node: FakeNode, table: CopiedTable, body: bytes, *, delta: bool = False) -> None:
    """Apply an answer of a master."""
    parts = TableParts(decoder_of(table))
    assert parts.add(Command(0, ext={"delta": str(delta).lower()}, body=body))
    Tables(node).apply(table, parts)


def test_an_equal_table_changes_nothing() -> None:
    node = FakeNode()
    node.topics.put(TopicConfig("T", 4, 4), WALL)
    node.topics.dirty = False
    body = encode_body(TopicConfigTable(dict(node.topics.table), data_version=node.topics.version))
    version = node.topics.version
    apply(node, CopiedTable.TOPICS, body)
    assert node.topics.version is version
    assert not node.topics.dirty


def test_topics_come_with_their_attributes() -> None:
    """rocketmq#9403: a master's table as RocketMQ writes it."""
    node = FakeNode()
    apply(
        node,
        CopiedTable.TOPICS,
        b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"topicConfigTable":{"T":'
        b'{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":4,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4}}}',
    )
    assert node.topics.table["T"].attributes == {"message.type": "FIFO"}
    assert b'"FIFO"' in node.topics.encode()


def test_rows_are_added_by_a_delta_and_taken_whole_otherwise() -> None:
    node = FakeNode()
    node.offsets.commit("G", "T", 0, 5)
    apply(node, CopiedTable.OFFSETS, b'{"offsetTable":{"U@G":{0:7}}}', delta=True)
    assert node.offsets.get("G", "T", 0) == 5
    assert node.offsets.get("G", "U", 0) == 7
    apply(node, CopiedTable.OFFSETS, b'{"offsetTable":{"U@G":{0:8}}}')
    assert node.offsets.get("G", "T", 0) == -1
    assert node.offsets.get("G", "U", 0) == 8


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        apply(FakeNode(), CopiedTable.OFFSETS, b"[]")


def test_delays_go_back_with_controllers_only() -> None:
    """There a log may have been cut; a plain master's that is behind took nothing back."""
    for acting, expected in ((True, 5), (False, 2)):
        options = BrokerOptions(
            broker_name="b", broker_ip1="127.0.0.1", enable_slave_acting_master=acting
        )
        node = FakeNode(options)
        become(node, Role.SLAVE)
        for offset in (5, 2):
            apply(node, CopiedTable.DELAYS, b'{"offsetTable":{1:%d}}' % offset)
        assert node.schedule.progress()[1] == expected
