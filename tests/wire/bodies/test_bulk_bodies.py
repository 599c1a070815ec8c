"""Bodies of our bulk requests: round trips of all, exact JSON of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import body_classes, check_body_trip, values

from epochmq.wire.bodies import offset_bodies
from epochmq.wire.bodies.body import decode_body, encode_body


@pytest.mark.parametrize("cls", body_classes(offset_bodies))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_body_trip(data.draw(values(cls)))


def test_digests_are_rows() -> None:
    made = offset_bodies.LogDigests(9, 1, [offset_bodies.EpochSpan(2, 1, 9)], [(1, 8, "ab")])
    data = encode_body(made)
    assert data == (
        b'{"confirmed":9,"start":1,"epochs":[{"epoch":2,"start":1,"end":9}],"blocks":[[1,8,"ab"]],'
        b'"damaged":[]}'
    )
    assert decode_body(offset_bodies.LogDigests, data) == made
    older = data.replace(b',"damaged":[]', b"")
    assert decode_body(offset_bodies.LogDigests, older) == made
