"""Properties of copies: what the application wrote stays, what one stored message has does not."""

from epochmq.model import property_names as names
from epochmq.model.copied_properties import KEPT, LEFT_OUT
from epochmq.model.sink_mark import SINK_ID, SINK_SEQ


def test_a_copy_keeps_what_the_application_wrote() -> None:
    assert {names.KEYS, names.TAGS, names.SHARDING_KEY, names.TRACE_CONTEXT} <= KEPT
    assert not KEPT & LEFT_OUT
    assert "colour" not in LEFT_OUT


def test_a_copy_is_no_delayed_transactional_or_marked_message() -> None:
    assert {names.DELAY, names.TIMER_DELIVER_MS, names.UNIQ_KEY, SINK_ID, SINK_SEQ} <= LEFT_OUT
    assert LEFT_OUT >= names.RESERVED - KEPT
