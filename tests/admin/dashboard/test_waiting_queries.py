"""Open transactions and delayed messages, from records and figures of the brokers."""

import pytest
from tests.client.core.test_pop_handle import stored

from epochmq.admin.dashboard.message_queries import BODY_CHARS
from epochmq.admin.dashboard.waiting_queries import delayed_messages, ended_offsets, waiting_row
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


@pytest.mark.parametrize(
    ("body", "offsets"), [(b"0,2", {0, 2}), (b"", set()), (b"7,", {7}), (b"\xff,x", set())]
)
def test_offsets_of_half_messages_that_have_ended(body: bytes, offsets: set[int]) -> None:
    assert ended_offsets(record(body)) == offsets


def test_a_half_message_as_a_row_has_a_short_body() -> None:
    message = stored(3, HALF, 0, REAL_TOPIC="orders")
    message.body = b"x" * (2 * BODY_CHARS)
    row = waiting_row(message)
    assert (row["queue_offset"], row["real_topic"]) == (3, "orders")
    assert row["body"] == "x" * BODY_CHARS
