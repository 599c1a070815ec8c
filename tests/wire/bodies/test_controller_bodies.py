"""Bodies of the controller family: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import controller_bodies
from epochmq.wire.bodies.body import encode_body


@pytest.mark.parametrize("cls", body_classes(controller_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_an_open_epoch_ends_at_the_largest_long() -> None:
    assert encode_body(controller_bodies.EpochEntryBody(1, 0)).endswith(
        b'"endOffset":9223372036854775807}'
    )
