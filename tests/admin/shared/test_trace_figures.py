"""The trace of one message, from what clients of several versions wrote."""

from tests.client.core.test_pop_handle import stored
from tests.client.core.test_trace_text import AFTER_4, AFTER_5, BEFORE_5, PUB_5

from epochmq.admin.shared.trace_figures import TraceRow, rows_of_traces
from epochmq.model.message import StoredMessage

HOST = "127.0.0.1"


def message(text: str) -> StoredMessage:
    found = stored(0, "RMQ_SYS_TRACE_TOPIC", 0)
    found.body = text.encode()
    found.born_host = (HOST, 1)
    return found


SENT = TraceRow(True, "shop", HOST, 1700000000000, 3, True)


def test_a_send_and_a_listener_call() -> None:
    found = rows_of_traces([message(BEFORE_5 + AFTER_5), message(PUB_5)], "ID1")
    assert found == [SENT, TraceRow(False, "billing", HOST, 1700000000100, 7, True)]


def test_the_end_of_an_old_client_takes_group_and_time_from_the_begin() -> None:
    (row,) = rows_of_traces([message(AFTER_4), message(BEFORE_5)], "ID1")
    assert row == TraceRow(False, "billing", HOST, 1700000000100, 7, False)
    (row,) = rows_of_traces([message(AFTER_4)], "ID1")
    assert (row.group, row.wall_ms) == ("", -1)


def test_other_messages_and_texts_are_left_out() -> None:
    assert rows_of_traces([message(PUB_5), message("noise"), message("\x00\xff")], "ID2") == []
