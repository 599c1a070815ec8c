"""The outcome of a pull by its response code."""

from epochmq.client.core.consumer_state import Cursor, PullStatus, status_of


def test_codes_map_to_statuses() -> None:
    assert [status_of(code) for code in (0, 19, 20, 21)] == list(PullStatus)
    assert status_of(1) is None


def test_the_cursor_follows_the_broker() -> None:
    cursor = Cursor(3)
    cursor.found(9, 1)
    assert (cursor.next_offset, cursor.broker_id) == (9, 1)
