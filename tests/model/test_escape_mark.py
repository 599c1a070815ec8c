"""One name for one message, whoever hands it over and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.sink_mark import LENGTH_MAX, PART, escape_id, escape_mark

TEXTS = st.dictionaries(st.text(min_size=1), st.text(), max_size=4)


@given(TEXTS, TEXTS, st.binary(), st.binary())
def test_names_are_equal_when_messages_are(
    one: dict[str, str], other: dict[str, str], body: bytes, another: bytes
) -> None:
    first = escape_id("b", "T", one, 1, body)
    assert first == escape_id("b", "T", dict(reversed(one.items())), 1, body)
    if (one, body) != (other, another):
        assert first != escape_id("b", "T", other, 1, another)


def test_how_it_was_moved_on_is_no_part_of_it() -> None:
    moved = {"TIMER_DEQUEUE_MS": "5", "TIMER_ENQUEUE_MS": "4", "WAIT": "false"}
    assert escape_id("b", "T", {"K": "v", **moved}) == escape_id("b", "T", {"K": "v"})


def test_a_mark_is_told_from_a_sinks() -> None:
    mark = escape_mark("b@1", "T")
    assert mark is not None
    assert mark.key.part == PART < 0


@pytest.mark.parametrize("text", ["", "x" * (LENGTH_MAX + 1)])
def test_what_no_broker_writes(text: str) -> None:
    assert escape_mark(text, "T") is None
