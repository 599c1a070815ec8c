"""Which messages a check point names, as pulls from afar bring them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.pop.remote_fetch import COUNT_MAX, PULLS_MAX, WantedMessages
from epochmq.model import record
from epochmq.model.message import StoredMessage
from epochmq.wire.codes import ResponseCode as Code

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


def message(at: int) -> StoredMessage:
    return record.decode(
        record.encode(
            topic=b"T", body=b"%d" % at, properties=b"", queue_id=0, flag=0, queue_offset=at,
            offset=100 * at, sys_flag=0, born_wall_ms=0, born_host=HOST, store_wall_ms=0,
            store_host=HOST, reconsume_times=0, prepared_offset=0,
        )
    )  # fmt: skip


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 50), min_size=1, max_size=32))
def test_against_a_queue_with_holes(there: set[int], wanted: set[int]) -> None:
    """A pull answers with what follows its offset, at most two; the queue ends at 61."""
    asked = WantedMessages(wanted)
    while (pull := asked.next_pull()) is not None:
        first, count = pull
        assert 0 < count <= COUNT_MAX + 60
        messages = [message(at) for at in sorted(there) if at >= first][:2]
        if messages:
            asked.came(messages)
        elif not asked.none(Code.PULL_RETRY_IMMEDIATELY, 0, 61, 61):
            break
    assert {at for at, found in asked.found.items() if found} <= wanted & there
    for at in asked.found:
        found = asked.found[at]
        assert (found is not None and found.queue_offset == at) == (at in there)


def test_what_retention_took_is_gone() -> None:
    asked = WantedMessages([3, 7])
    assert asked.next_pull() == (3, 5)
    assert asked.none(Code.PULL_OFFSET_MOVED, 5, 9, 5)
    assert asked.found == {3: None}
    assert asked.next_pull() == (7, 1)
    asked.came([message(7)])
    assert asked.next_pull() is None


@pytest.mark.parametrize(
    ("code", "high", "after"),
    [
        (Code.PULL_NOT_FOUND, 3, 3),  # a replica that lags
        (Code.PULL_OFFSET_MOVED, 2, 2),
        (Code.PULL_RETRY_IMMEDIATELY, 9, 3),  # read elsewhere
    ],
)
def test_of_what_is_not_there_yet_nothing_is_said(code: int, high: int, after: int) -> None:
    asked = WantedMessages([3])
    asked.next_pull()
    assert not asked.none(code, 0, high, after)
    assert asked.found == {}


def test_it_ends_where_answers_lead_nowhere() -> None:
    asked = WantedMessages([3])
    for _ in range(PULLS_MAX):
        assert asked.next_pull() is not None
        asked.came([])
    assert asked.next_pull() is None
