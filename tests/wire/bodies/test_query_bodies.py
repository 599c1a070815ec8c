"""Bodies of consume-queue look-ups: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import offset_bodies
from epochmq.wire.bodies.body import encode_body


@pytest.mark.parametrize("cls", body_classes(offset_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_units() -> None:
    body = offset_bodies.QueryConsumeQueueBody([offset_bodies.ConsumeQueueData(1, 2, 3)], 0, 1)
    data = encode_body(body)
    assert data.startswith(
        b'{"queueData":[{"physicOffset":1,"physicSize":2,"tagsCode":3,"eval":false}]'
    )
