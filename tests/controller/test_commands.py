"""Commands and their bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import OurBug
from epochmq.controller import commands

ids = st.integers(1, 2**62)
EVENTS = st.one_of(
    st.builds(commands.ApplyBrokerId, st.text(), st.text(), ids, st.text(), st.text(), st.text()),
    st.builds(commands.UpdateBroker, st.text(), st.text(), ids, st.text(), session=st.text()),
    st.builds(commands.AlterSyncStateSet, st.text(), st.text(), ids, ids, ids, st.tuples(ids, ids)),
    st.builds(commands.ElectMaster, st.text(), st.text(), ids, ids, ids, ids, st.tuples(ids)),
    st.builds(commands.CleanBrokerData, st.text(), st.text(), st.tuples(ids)),
    st.builds(commands.SetSetting, st.text(), st.text(), st.text()),
)


@given(EVENTS)
def test_round_trip(event: commands.AnyEvent) -> None:
    assert commands.decode(commands.encode(event)) == event


def test_the_bytes_begin_with_the_version() -> None:
    assert commands.encode(commands.CleanBrokerData("c", "b"))[0] == commands.VERSION == 1


@pytest.mark.parametrize("data", [b"", b"\x02\x80", b"\x01", b"\x01\x81\xa2do\xa4what"])
def test_what_cannot_be_read_stops_the_controller(data: bytes) -> None:
    with pytest.raises(OurBug):
        commands.decode(data)
