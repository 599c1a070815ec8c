"""Offsets as JSON: one text for equal offsets, clear errors for anything else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import UsageError
from epochmq.model.topic import MessageQueue
from epochmq.spark.spark_offsets import StreamOffset, load, topics_of

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


def test_topics_of_offsets() -> None:
    assert topics_of({MessageQueue("t", "b", 1): 0, MessageQueue("t", "b", 0): 0}) == ["t"]


@pytest.mark.parametrize("table", [None, {}, {"version": 2, "offsets": {}}, {"t": {"0": 1}}, 7])
def test_another_sources_checkpoint_is_refused(table: Any) -> None:
    with pytest.raises(UsageError, match="not of this source"):
        StreamOffset.from_json(table)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "nan?"])
def test_what_is_no_json_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="not JSON"):
        load(text)
