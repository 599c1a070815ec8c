"""Headers of group administration: round trips of all, exact fields of some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.trips import FULL_TEXT, check_header_trip, header_classes, values

from epochmq.wire.header import decode_header, encode_header
from epochmq.wire.headers import group_headers


@pytest.mark.parametrize("cls", header_classes(group_headers))
@given(data=st.data())
def test_round_trip(cls: type, data: st.DataObject) -> None:
    check_header_trip(data.draw(values(cls, FULL_TEXT)))


@pytest.mark.parametrize(
    ("ext", "cleans"),
    [
        ({}, False),
        ({"cleanOffset": "true"}, True),
        ({"removeOffset": "true"}, True),
        ({"cleanOffset": "false"}, False),
    ],
)
def test_offsets_go_under_either_name(ext: dict[str, str], cleans: bool) -> None:
    header = decode_header(group_headers.DeleteGroupHeader, {"groupName": "g", **ext})
    assert header.cleans_offset is cleans
    assert encode_header(header) == {"groupName": "g", **ext}
