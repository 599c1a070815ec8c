"""DataVersion: which is newer."""

import msgspec

from epochmq.model.data_version import DataVersion


def test_each_change_is_newer_whatever_the_clock_does() -> None:
    first = DataVersion().next_version(1000)
    second = first.next_version(900)
    assert second > first
    assert (second.counter, second.timestamp) == (2, 900)


def test_the_state_version_decides_first_then_the_counter_then_time() -> None:
    assert DataVersion(2, 0, 0) > DataVersion(1, 99, 99)
    assert DataVersion(1, 2, 0) > DataVersion(1, 1, 99)
    assert DataVersion(1, 1, 2) > DataVersion(1, 1, 1)
    assert DataVersion(1, 9, 1).next_version(5, state=3) == DataVersion(3, 10, 5)


def test_json_is_upstream_s_and_a_4_9_peer_has_no_state_version() -> None:
    version = DataVersion(1, 2, 3)
    assert msgspec.json.encode(version) == b'{"stateVersion":1,"counter":2,"timestamp":3}'
    old = msgspec.json.decode(b'{"counter":2,"timestamp":3}', type=DataVersion)
    assert old == DataVersion(0, 2, 3)


def test_an_acting_master_is_ahead_of_changes_that_it_has_not_copied() -> None:
    copied, missed = DataVersion(1, 7, 900), DataVersion(1, 900, 990)
    assert copied.leading(10) > missed
    assert copied.leading(10).timestamp == 10
