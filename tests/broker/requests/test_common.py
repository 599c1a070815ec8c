"""Look-ups that refuse in upstream's words."""

import pytest
from tests.broker.fake_node import FakeNode

from epochmq.base.errors import Refused
from epochmq.broker.requests.common import check_queue_id, known_group, known_topic, queue_of
from epochmq.model.topic import MessageQueue


def test_known_or_refused() -> None:
    node = FakeNode()
    assert known_topic(node, "TBW102").perm == 7
    with pytest.raises(Refused, match=r"topic\[T\] not exist") as caught:
        known_topic(node, "T")
    assert caught.value.code == 17
    assert known_group(node, "g").group_name == "g"
    node.groups.auto_create = False
    with pytest.raises(Refused) as caught:
        known_group(node, "h")
    assert caught.value.code == 26


def test_queue_ids() -> None:
    check_queue_id(0)
    check_queue_id(1023)
    for bad in (-1, 1024):
        with pytest.raises(Refused):
            check_queue_id(bad)
    assert queue_of(FakeNode(), "T", 3) == MessageQueue("T", "b", 3)
