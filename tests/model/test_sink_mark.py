"""Marks of sinks: what counts as one, and in which topics."""

import pytest

from epochmq.model.names import SCHEDULE_TOPIC
from epochmq.model.property_names import RESERVED
from epochmq.model.sink_mark import (
    SINK_BATCH,
    SINK_ID,
    SINK_ID_LENGTH_MAX,
    SINK_PART,
    SINK_SEQ,
    SinkKey,
    SinkMark,
    mark_of,
)

MARKED = {SINK_ID: "s", SINK_BATCH: "7", SINK_PART: "0", SINK_SEQ: "12", "other": "x"}


def test_a_mark_names_sink_part_topic_batch_and_number() -> None:
    assert mark_of("T", MARKED) == SinkMark(SinkKey("s", 0, "T"), 7, 12)
    longest = {**MARKED, SINK_ID: "s" * SINK_ID_LENGTH_MAX, SINK_SEQ: "9" * 18}
    assert mark_of("T", longest) is not None


@pytest.mark.parametrize("name", [SINK_ID, SINK_BATCH, SINK_PART, SINK_SEQ])
def test_all_four_must_be_there(name: str) -> None:
    assert mark_of("T", {k: v for k, v in MARKED.items() if k != name}) is None
    assert mark_of("T", {**MARKED, name: ""}) is None


@pytest.mark.parametrize("name", [SINK_BATCH, SINK_PART, SINK_SEQ])
@pytest.mark.parametrize("text", ["-1", "+1", " 1", "1_0", "x", "1.0", "٣", "9" * 19])
def test_numbers_are_plain_digits(name: str, text: str) -> None:
    assert mark_of("T", {**MARKED, name: text}) is None


def test_a_long_id_is_no_mark() -> None:
    assert mark_of("T", {**MARKED, SINK_ID: "s" * (SINK_ID_LENGTH_MAX + 1)}) is None


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102"])
def test_copies_are_not_told_apart(topic: str) -> None:
    assert mark_of(topic, MARKED) is None
    assert mark_of(SCHEDULE_TOPIC, {**MARKED, "REAL_TOPIC": topic}) is None


def test_a_delayed_message_counts_for_the_topic_it_goes_to() -> None:
    assert mark_of(SCHEDULE_TOPIC, {**MARKED, "REAL_TOPIC": "T"}) == mark_of("T", MARKED)
    assert mark_of(SCHEDULE_TOPIC, MARKED) is None


def test_clients_may_send_them() -> None:
    assert RESERVED.isdisjoint(MARKED)
