"""Many acks in one request; the bits are read back by the body's own reader."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.client.core.pop_state import SPAN_MAX, PopHandle, batches


def handle(
    offset: int, start: int = 0, revive: int = 3, mark: str = "0", queue: int = 0
) -> PopHandle:
    return PopHandle(start, 1000, 60000, revive, mark, "b", queue, offset)


def test_the_bits_of_the_fact_sheet() -> None:
    """Bits 0 and 9 are "AQI="."""
    body, alone = batches("b", "g", "T", [handle(5, 5), handle(14, 5)])
    (row,) = body.acks
    assert (row.bit_set, row.offsets(2), alone) == ("AQI=", [5, 14], [])
    assert (body.broker_name, row.consumer_group, row.topic, row.retry) == ("b", "g", "T", "0")
    assert (row.revive_queue_id, row.pop_time, row.invisible_time) == (3, 1000, 60000)


def test_in_order_and_far_ones_go_alone() -> None:
    lonely = [handle(1, revive=999), handle(SPAN_MAX), handle(1, start=2)]
    body, alone = batches("b", "g", "T", [*lonely, handle(1)])
    assert alone == lonely
    assert len(body.acks) == 1


@given(
    st.lists(
        st.builds(
            handle,
            st.integers(0, 200),
            st.sampled_from([0, 5, 64]),
            st.sampled_from([0, 7, 999]),
            st.sampled_from("012"),
            st.integers(0, 1),
        )
    )
)
def test_every_handle_is_there_once(handles: list[PopHandle]) -> None:
    body, alone = batches("b", "g", "T", handles)
    together = [
        handle(offset, row.start_offset, row.revive_queue_id, row.retry, row.queue_id)
        for row in body.acks
        for offset in row.offsets(1_000) or ()
    ]
    assert len(together) == len(set(together))
    assert set(together) | set(alone) == set(handles)
    assert not set(together) & set(alone)
