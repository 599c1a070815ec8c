"""Offsets of queues as JSON: one order, clear errors for anything else."""

from typing import Any

import pytest

from epochmq.base.errors import UsageError
from epochmq.model.queue_offsets import by_topic, from_topics, parse_queue
from epochmq.model.topic import MessageQueue


def test_queues_come_in_the_order_of_their_numbers() -> None:
    at = {MessageQueue("t", "b", n): n for n in (10, 9, 0)}
    assert list(by_topic(at)["t"]) == ["b:0", "b:9", "b:10"]


@pytest.mark.parametrize("text", ["", "broker-a", "broker-a:", ":1", "broker-a:x", "broker-a:-1"])
def test_what_is_no_queue_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is not a queue"):
        parse_queue("t", text)


@pytest.mark.parametrize(
    "table", [[], {"t": 1}, {"t": {"b:0": "1"}}, {"t": {"b:0": -1}}, {"t": {"b:0": True}}, None]
)
def test_what_are_no_offsets_is_said(table: Any) -> None:
    with pytest.raises(UsageError):
        from_topics(table)
