"""What another replica's digests mean."""

from typing import Any

import pytest

from epochmq.broker.state import compare_digests
from epochmq.broker.state.compare_digests import Differences, Meaning, judge, partner
from epochmq.store.scrub import CheckedBlock

SEEN = [CheckedBlock(at, 10, f"d{at}", at, 0) for at in (0, 10, 20, 30)]


def test_each_round_asks_another_member() -> None:
    members = {"b", "a", "c"}
    for start in (0, compare_digests.STRETCH_BYTES - 1, compare_digests.STRETCH_BYTES, 1 << 40):
        assert {partner(members, start, n) for n in range(3)} == members
    assert partner(members, 0, 0) != partner(members, compare_digests.STRETCH_BYTES, 0)
    assert partner((), 5, 5) is None


def test_only_equal_blocks_are_compared() -> None:
    rows = [
        (0, 10, "d0"),
        (10, 10, "other"),  # the same, and different
        (20, 9, "d20"),
        (29, 10, "x"),  # cut in another way; not ours
        (1 << 80, -5, ""),
        (-1, 10, "d0"),  # nonsense
    ]
    found = compare_digests.compare(SEEN, rows)
    assert [one.start for one in found.same] == [0]
    assert [one.start for one in found.different] == [10]
    assert compare_digests.compare(SEEN, []) == ([], [])
    assert compare_digests.compare([], rows) == ([], [])


@pytest.mark.parametrize(
    ("rows", "verified", "meaning"),
    [
        ([(5, 10, "own")], True, Meaning.SAME),
        ([(5, 10, "own")], False, Meaning.SAME),
        ([(5, 10, "theirs")], True, Meaning.DIVERGED),
        ([(5, 10, "theirs")], False, Meaning.UNKNOWN),
        ([], True, Meaning.THEIRS),
        ([(5, 9, "theirs"), (6, 10, "theirs")], True, Meaning.THEIRS),
    ],
)
def test_which_replica_is_right(rows: Any, verified: bool, meaning: Meaning) -> None:
    assert judge("own", 5, 10, rows, verified=verified) is meaning


def test_differences_stay_until_they_are_gone() -> None:
    table = Differences()
    assert (len(table), table.first) == (0, "")
    for one in SEEN[1:]:
        table.add(one, "a:1")
    table.add(SEEN[2], "b:1")
    assert len(table) == 3  # blocks, whoever differs
    assert table.first == "log offsets 10 to 19, compared with a:1"
    table.matched(SEEN[:2], "a:1")
    table.matched(SEEN[3:], "b:1")  # it differs from a's
    assert (len(table), table.same_bytes) == (2, 30)
    assert (20, "a:1") in table
    assert (10, "a:1") not in table
    members = {1: "a:1", 2: "b:1"}
    table.keep(0, 40, members)
    assert len(table) == 2
    table.keep(0, 39, members)  # the log was cut
    assert (30, "a:1") not in table
    table.keep(0, 39, {1: "a:1"})
    assert (20, "b:1") not in table
    table.keep(21, 39, members)  # retention
    assert len(table) == 0


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_digests, "DIFFERENCES_MAX", 2)
    table = Differences()
    for one in SEEN:
        table.add(one, "a:1")
    assert len(table) == 2
