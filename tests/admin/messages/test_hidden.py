"""Messages of the brokers' own topics, told for what they are."""

import pytest
from tests.client.core.test_pop_handle import stored

from epochmq.admin.messages.hidden import describe
from epochmq.model.message import StoredMessage

LEVELS = (1_000, 5_000)


def told(topic: str, body: bytes = b"", **properties: str) -> dict[str, object]:
    message = stored(3, topic, 1, **properties)
    message.store_wall_ms, message.body = 10_000, body
    return describe(message, LEVELS)


def test_an_ordinary_message_is_nothing_else() -> None:
    assert told("orders", KEYS="k") == {}
    assert told("%RETRY%g", KEYS="k") == {}


def test_delayed() -> None:
    place = {"REAL_TOPIC": "orders", "REAL_QID": "2"}
    assert told("SCHEDULE_TOPIC_XXXX", **place) == {
        "state": "delayed, level 2",
        "real_topic": "orders",
        "real_queue_id": 2,
        "due_ms": 15_000,
    }
    message = stored(3, "SCHEDULE_TOPIC_XXXX", 5, **place)
    assert "due_ms" not in describe(message, LEVELS)


def test_timed_and_cancelled() -> None:
    place = {"REAL_TOPIC": "orders", "REAL_QID": "0", "TIMER_OUT_MS": "77000"}
    assert told("rmq_sys_wheel_timer", **place) == {
        "state": "timed",
        "real_topic": "orders",
        "real_queue_id": 0,
        "due_ms": 77_000,
    }
    found = told("rmq_sys_wheel_timer", **place, TIMER_DEL_UNIQKEY="ID")
    assert (found["state"], found["cancels"]) == ("cancels a timed message", "ID")
    assert "due_ms" not in told("rmq_sys_wheel_timer", TIMER_OUT_MS="x")


def test_half() -> None:
    place = {"REAL_TOPIC": "orders", "REAL_QID": "3", "PGROUP": "shop"}
    found = told("RMQ_SYS_TRANS_HALF_TOPIC", **place, TRANSACTION_CHECK_TIMES="4")
    assert found["state"] == "half: shown to nobody unless its transaction is committed"
    assert (found["real_topic"], found["real_queue_id"]) == ("orders", 3)
    assert (found["producer_group"], found["checks"]) == ("shop", 4)
    given_up = told("TRANS_CHECK_MAX_TIME_TOPIC", **place)
    assert str(given_up["state"]).startswith("half, given up")
    assert told("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"7,8,") == {
        "state": "end of transactions",
        "half_offsets": "7,8,",
    }


@pytest.mark.parametrize(
    ("tag", "body", "state", "more"),
    [
        (
            "ck",
            b'{"so":5,"pt":1000,"it":60000,"bm":0,"n":2,"q":1,"t":"orders","c":"g","bn":"b"}',
            "POP check point",
            {"first_offset": 5, "due_ms": 61_000},
        ),
        (
            "ack",
            b'{"ao":6,"so":5,"t":"orders","c":"g","q":1,"pt":1}',
            "POP ack",
            {"acked_offset": 6},
        ),
        (
            "ack",
            b'{"ackOffset":6,"startOffset":5,"topic":"orders","consumerGroup":"g","queueId":1}',
            "POP ack",
            {"acked_offset": 6, "first_offset": 5},
        ),
    ],
)
def test_in_flight(tag: str, body: bytes, state: str, more: dict[str, object]) -> None:
    found = told("rmq_sys_REVIVE_LOG_c", body, TAGS=tag)
    assert (found["state"], found["real_topic"], found["group"]) == (state, "orders", "g")
    assert found["real_queue_id"] == 1
    assert more.items() <= found.items()
    # On its way there it waits in the timer's topic.
    timed = told(
        "rmq_sys_wheel_timer", body, TAGS=tag, REAL_TOPIC="rmq_sys_REVIVE_LOG_c", REAL_QID="0"
    )
    assert (timed["state"], timed["real_topic"]) == (state, "orders")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_a_record_that_cannot_be_read(body: bytes) -> None:
    assert told("rmq_sys_REVIVE_LOG_c", body, TAGS="ck") == {"state": "POP check point"}


def test_a_body_that_cannot_be_unpacked() -> None:
    message: StoredMessage = stored(1, "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    message.sys_flag, message.body = 1, b"no zlib"
    assert describe(message, LEVELS)["half_offsets"] == ""


def test_a_retry_after_a_pop() -> None:
    found = told("%RETRY%g_T", **{"1ST_POP_TIME": "9"})
    assert found == {
        "state": "POP retry: it was not acknowledged in time",
        "first_popped_ms": 9,
    }
