"""Bodies of group administration: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import group_bodies
from epochmq.wire.bodies.body import decode_body


@pytest.mark.parametrize("cls", body_classes(group_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_the_table_of_a_49_broker() -> None:
    data = b'{"dataVersion":{"counter":3},"subscriptionGroupTable":{"g":{"groupName":"g"}}}'
    got = decode_body(group_bodies.SubscriptionGroupTable, data)
    assert got.subscription_group_table["g"].retry_max_times == 16
    assert got.forbidden_table == {}
