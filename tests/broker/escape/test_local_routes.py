"""What a neighbour in the same process takes, and how it lies there."""

from collections.abc import Sequence

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness
from tests.broker.slow import Slow

from epochmq.broker.escape.local_routes import NobodyNear, NodeNear
from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.broker.serving.roles import Role
from epochmq.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from epochmq.model.properties import encode
from epochmq.model.revive_routing import pinned, place_of
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.store.draft import Draft

REVIVE = "rmq_sys_REVIVE_LOG_c"


def put(harness: BrokerHarness, *drafts: Draft) -> Sequence[WriteOutcome]:
    said: list[Sequence[WriteOutcome]] = []
    NodeNear(harness.node).put(drafts, Origin.DELAYED, harness.clock.wall, said.append)
    (outcomes,) = said
    return outcomes


def test_a_message_lies_in_a_queue_that_is_there() -> None:
    harness = BrokerHarness()
    near = NodeNear(harness.node)
    assert (near.name, near.cluster) == ("b", "c")
    assert near.accepts("T")  # made as a send would make it
    draft = Draft("T", 999, b"x", b"")
    assert put(harness, draft) == [WriteOutcome.STORED]
    assert [message.body for n in range(8) for message in harness.stored("T", n)] == [b"x"]
    assert draft.queue_id == 999  # the putter's own stays as it is


def test_a_half_message_becomes_one_of_its_own() -> None:
    harness = BrokerHarness()
    harness.topic()
    raw = encode({"PGROUP": "PG", "TRAN_MSG": "true", "UNIQ_KEY": "k"}).encode()
    assert put(harness, Draft("T", 0, b"x", raw, sys_flag=TX_PREPARED)) == [WriteOutcome.STORED]
    (kept,) = harness.stored(HALF_TOPIC)
    assert kept.properties["REAL_TOPIC"] == "T"


def test_what_a_consumer_sent_back_waits_there() -> None:
    harness = BrokerHarness()
    raw = encode({"DELAY": "3", "RETRY_TOPIC": "T"}).encode()
    assert put(harness, Draft("%RETRY%G", 0, b"x", raw)) == [WriteOutcome.STORED]
    (waiting,) = harness.stored(SCHEDULE_TOPIC, 2)
    assert waiting.properties["REAL_TOPIC"] == "%RETRY%G"


def test_what_its_replicas_have_not_yet_is_waited_for_there() -> None:
    """It is in that log: to hand it over once more would deliver it twice."""
    harness = BrokerHarness()
    harness.topic()
    slow = Slow(harness)
    said: list[Sequence[WriteOutcome]] = []
    NodeNear(harness.node).put([Draft("T", 0, b"x", b"")], Origin.DELAYED, 0, said.append)
    slow.answer(held=False)
    harness.node.pending_writes.tick(harness.clock.now)
    assert said == []
    slow.answer(held=True)
    assert said == [[WriteOutcome.STORED]]


def test_a_check_point_lies_in_the_queue_that_its_number_names() -> None:
    harness = BrokerHarness()
    assert NodeNear(harness.node).accepts(REVIVE)
    assert put(harness, Draft(REVIVE, pinned(place_of("b"), 9), b"x", b"")) == [WriteOutcome.STORED]
    assert len(harness.stored(REVIVE, 1)) == 1  # of eight


@pytest.mark.parametrize("topic", ["%RETRY%G", "%DLQ%G"])
def test_retries_and_dead_letters_have_their_topics_made(topic: str) -> None:
    harness = BrokerHarness()
    assert NodeNear(harness.node).accepts(topic)
    assert topic in harness.node.topics


def test_what_it_does_not_take() -> None:
    harness = BrokerHarness(auto_create_topic_enable=False, auto_create_subscription_group=False)
    near = NodeNear(harness.node)
    assert not near.accepts("T")
    assert not near.accepts("%RETRY%G")
    assert not near.accepts(TIMER_TOPIC)  # it has no wheel
    harness.topic("read", perm=4)
    assert not near.accepts("read")
    harness.topic()
    assert near.accepts("T")
    become(harness.node, Role.SLAVE)
    assert not near.accepts("T")
    assert put(harness, Draft("T", 0, b"x", b"")) == [WriteOutcome.LATER]


def test_a_rolled_one_lies_in_the_timer_topics_only_queue() -> None:
    harness = BrokerHarness()
    harness.node.open_timer()
    harness.topic(TIMER_TOPIC, queues=1)
    assert NodeNear(harness.node).accepts(TIMER_TOPIC)
    raw = encode({"TIMER_OUT_MS": "9", "TIMER_ROLL_TIMES": "1"}).encode()
    assert put(harness, Draft(TIMER_TOPIC, 0, b"x", raw)) == [WriteOutcome.STORED]
    assert len(harness.stored(TIMER_TOPIC)) == 1


def test_a_broker_that_is_alone() -> None:
    assert NobodyNear().masters() == ()
