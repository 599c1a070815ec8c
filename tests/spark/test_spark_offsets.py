"""Offsets as JSON: one text for equal offsets, clear errors for anything else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark.spark_offsets import (
    StreamOffset,
    by_topic,
    from_topics,
    load,
    parse_queue,
    topics_of,
)

queues = st.builds(
    MessageQueue,
    st.text("ab%", min_size=1, max_size=3),
    st.sampled_from(["broker-a", "broker:b", "c"]),
    st.integers(0, 1000),
)
offsets = st.dictionaries(queues, st.integers(0, 2**62), max_size=12)


@given(offsets, offsets, st.booleans(), st.randoms())
def test_an_offset_survives_json_and_has_one_text(
    at: dict[MessageQueue, int], init: dict[MessageQueue, int], fresh: bool, chance: Any
) -> None:
    text = json.dumps(StreamOffset(at, init, fresh).to_json())
    assert StreamOffset.from_json(json.loads(text)) == StreamOffset(at, init, fresh)
    shuffled = list(at.items())
    chance.shuffle(shuffled)
    assert json.dumps(StreamOffset(dict(shuffled), init, fresh).to_json()) == text


def test_queues_come_in_the_order_of_their_numbers() -> None:
    at = {MessageQueue("t", "b", n): n for n in (10, 9, 0)}
    assert list(by_topic(at)["t"]) == ["b:0", "b:9", "b:10"]
    assert topics_of(at) == ["t"]


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


@pytest.mark.parametrize("table", [None, {}, {"version": 2, "offsets": {}}, {"t": {"0": 1}}, 7])
def test_another_sources_checkpoint_is_refused(table: Any) -> None:
    with pytest.raises(UsageError, match="not of this source"):
        StreamOffset.from_json(table)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "nan?"])
def test_what_is_no_json_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="not JSON"):
        load(text)
