"""Open transactions and delayed messages, from records and figures of the brokers."""

from tests.client.core.test_pop_handle import stored

from epochmq.admin.dashboard.waiting_queries import delayed_messages, ended_offsets, open_rows
from epochmq.model.message import StoredMessage

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


def record(body: bytes) -> StoredMessage:
    message = stored(0, "RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
    message.body = body
    return message


def test_numbers_of_delay_levels() -> None:
    figures = {
        "scheduleMessageOffset_1": "3,10",
        "scheduleMessageOffset_2": "5,5",
        "scheduleMessageOffset_3": "x",
        "scheduleMessageOffset_4": "9,2",
        "another": "1,2",
    }
    assert delayed_messages(figures) == 7


def test_half_messages_that_have_not_ended() -> None:
    over = ended_offsets([record(b"0,2"), record(b""), record(b"7,"), record(b"\xff,x")])
    assert over == {0, 2, 7}
    half = [stored(offset, HALF, 0, REAL_TOPIC="orders") for offset in range(4)]
    rows = open_rows(half, over)
    assert [(row["queue_offset"], row["real_topic"]) for row in rows] == [
        (1, "orders"),
        (3, "orders"),
    ]
