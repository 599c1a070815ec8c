"""Bodies of replication status: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import controller_bodies
from epochmq.wire.bodies.body import decode_body


@pytest.mark.parametrize("cls", body_classes(controller_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_a_master_has_no_client_part() -> None:
    data = b'{"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":9}'
    assert decode_body(controller_bodies.HARuntimeInfo, data) == controller_bodies.HARuntimeInfo(
        True, 9
    )
