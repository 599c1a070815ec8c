"""Timed messages on their way in and out, as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.delay.timed import deliver_wall, due_wall, restore, roll, timed
from epochmq.model import properties as props
from epochmq.model.message import StoredMessage
from epochmq.model.names import TIMER_TOPIC
from epochmq.store.draft import Draft, PutStatus

WALL = 1_700_000_000_500
DAY = 86_400


def ask(wall: int = WALL, precision: int = 1000, **properties: object) -> object:
    text = props.encode({name: str(value) for name, value in properties.items()})
    draft = Draft("T", 3, b"x", text.encode(), 77, ("k",))
    return timed(draft, wall, precision_ms=precision, delay_max_sec=3 * DAY)


def asked(**properties: object) -> tuple[dict[str, str], int]:
    found = ask(**properties)
    assert isinstance(found, tuple)
    draft, slot = found
    assert (draft.topic, draft.queue_id, draft.tags_code) == (TIMER_TOPIC, 0, 77)
    return props.decode_bytes(draft.properties), slot


def test_the_place_and_the_slot_are_noted() -> None:
    properties, slot = asked(TIMER_DELAY_MS=1700, a="b")
    assert slot == WALL + 1500
    assert properties == {
        "TIMER_DELAY_MS": "1700",
        "a": "b",
        "TIMER_OUT_MS": str(slot),
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


def test_what_a_client_says_of_its_place_is_not_believed() -> None:
    properties, slot = asked(TIMER_DELAY_MS=1700, REAL_TOPIC="X", REAL_QID=9, a="b")
    assert properties == asked(TIMER_DELAY_MS=1700, a="b")[0]
    assert properties["TIMER_OUT_MS"] == str(slot)


def test_an_exact_multiple_is_lowered_as_upstream_has_it() -> None:
    assert asked(TIMER_DELAY_MS=1500)[1] == WALL + 500
    assert asked(TIMER_DELAY_MS=1501)[1] == WALL + 1500


def test_the_first_of_the_three_counts() -> None:
    every = {"TIMER_DELAY_SEC": 9, "TIMER_DELAY_MS": 5000, "TIMER_DELIVER_MS": WALL + 1}
    assert asked(**every)[1] == WALL + 8500
    del every["TIMER_DELAY_SEC"]
    assert asked(**every)[1] == WALL + 4500
    del every["TIMER_DELAY_MS"]
    assert asked(**every)[1] == WALL - 500


@pytest.mark.parametrize("value", ["x", "", "1.5", "9" * 21, "9" * 19, "\u0661", "-", "1_0"])
def test_what_is_no_number_is_illegal(value: str) -> None:
    wanted = None if value == "" else PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert ask(TIMER_DELIVER_MS=value) is wanted


def test_too_far_away_is_illegal() -> None:
    assert ask(TIMER_DELAY_SEC=3 * DAY + 1) is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert isinstance(ask(TIMER_DELAY_SEC=3 * DAY), tuple)


@pytest.mark.parametrize("delay", ["0", "-5"])
def test_the_past_is_an_ordinary_message_but_no_cancellation(delay: str) -> None:
    assert ask(TIMER_DELAY_MS=delay) is None
    assert ask(TIMER_DELAY_MS=delay, TIMER_DEL_UNIQKEY="k") is PutStatus.WHEEL_TIMER_MSG_ILLEGAL


def test_what_was_on_a_wheel_is_not_put_there_again() -> None:
    assert ask(TIMER_DELAY_MS=9000, TIMER_OUT_MS=1) is None
    assert ask(a=1) is None


def test_the_brokers_own_properties_must_fit_too() -> None:
    found = ask(TIMER_DELAY_MS=9000, a="x" * 32_600)
    assert found is PutStatus.PROPERTIES_SIZE_EXCEEDED


@given(
    st.sampled_from(["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"]),
    st.integers(1, 100_000),
    st.integers(0, 50),
    st.sampled_from([100, 200, 500, 1000]),
)
def test_never_early_and_never_a_second_late(
    name: str, delay: int, stored_after: int, precision: int
) -> None:
    """Whatever clock the copy was stored by, and whatever precision was used."""
    value = WALL + delay if name == "TIMER_DELIVER_MS" else delay
    wanted = WALL + delay * (1000 if name == "TIMER_DELAY_SEC" else 1)
    found = ask(precision=precision, **{name: value})
    assert isinstance(found, tuple)
    properties = props.decode_bytes(found[0].properties)
    due = due_wall(properties, WALL + stored_after)
    assert due is not None
    assert wanted <= due < wanted + 1000
    rolled = due_wall({**properties, "TIMER_ROLL_TIMES": "1"}, WALL + 5000)
    assert rolled is not None
    assert wanted <= rolled < wanted + 2000


def test_without_its_slot_it_has_no_time() -> None:
    assert due_wall({"TIMER_DELIVER_MS": "5"}, WALL) is None
    assert due_wall({"TIMER_OUT_MS": "x"}, WALL) is None
    assert due_wall({"TIMER_OUT_MS": "7000"}, WALL) == 7001
    assert deliver_wall({}, WALL) is None


def stored(**properties: str) -> StoredMessage:
    host = ("127.0.0.1", 1)
    return StoredMessage(
        TIMER_TOPIC, 0, 5, 900, 100, b"x", 3, 0, 11, host, 12, host, 0, 0, properties, 0
    )


def test_out_again_as_it_came() -> None:
    message = stored(REAL_TOPIC="T", REAL_QID="3", TAGS="a", KEYS="k1 k2", UNIQ_KEY="u")
    draft = restore(message, 20, 30)
    assert draft is not None
    assert (draft.topic, draft.queue_id, draft.keys) == ("T", 3, ("u", "k1", "k2"))
    assert draft.tags_code
    assert (draft.flag, draft.born_wall_ms) == (3, 11)
    properties = props.decode_bytes(draft.properties)
    assert properties["TIMER_ENQUEUE_MS"] == "20"
    assert properties["TIMER_DEQUEUE_MS"] == "30"


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": "T", "REAL_QID": "1" * 10},
        {"REAL_TOPIC": TIMER_TOPIC},
    ],
)
def test_a_message_without_a_place(place: dict[str, str]) -> None:
    assert restore(stored(**place), 1, 2) is None


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("1", "2"), ("x", "1")])
def test_once_more_into_the_timer_topic(before: str | None, after: str) -> None:
    more = {} if before is None else {"TIMER_ROLL_TIMES": before}
    draft = roll(stored(REAL_TOPIC="T", TIMER_OUT_MS="9", **more))
    assert draft.topic == TIMER_TOPIC
    assert props.decode_bytes(draft.properties)["TIMER_ROLL_TIMES"] == after
