"""Copies of a table in parts: whatever changes meanwhile, the copy is equal in the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import epochmq.broker.state.row_changes as row_changes
from epochmq.broker.state.row_changes import RowChanges

NAMES = st.sampled_from("abcdefgh")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("drop"), NAMES),
        st.tuples(st.just("renew"), NAMES),
        st.tuples(st.just("copy"), st.integers(1, 4)),
    ),
    max_size=60,
)


class Copied:
    """A table with numbered rows, and one replica that copies it part by part."""

    def __init__(self) -> None:
        self.changes = RowChanges[str]()
        self.table: dict[str, int] = {}
        self.written = 0
        self.replica: dict[str, int] = {}
        self.count: int | None = None
        self.parts = 0

    def put(self, name: str) -> None:
        self.written += 1
        self.table[name] = self.written
        self.changes.touch(name)

    def drop(self, name: str) -> None:
        if self.table.pop(name, None) is not None:
            self.changes.remove(name)

    def renew(self, name: str) -> None:
        """The table is replaced, as by the master's."""
        self.table = {name: self.written}
        self.changes.renew(self.table)

    def copy(self, rows_max: int) -> bool:
        """Copy the next part; return whether there is more."""
        part = self.changes.since(self.count, lambda name: 1, rows_max)
        assert len(part.rows) <= rows_max
        assert self.count is None or not part.is_delta or part.count >= self.count
        if not part.is_delta:
            self.replica.clear()
        for name in part.removed:
            assert name not in self.table
            self.replica.pop(name, None)
        self.replica.update({name: self.table[name] for name in part.rows})
        self.count = part.count
        self.parts += 1
        return part.has_more


@pytest.mark.parametrize("removed_max", [2, 10_000])
@given(steps=STEPS, rows_max=st.integers(1, 4))
def test_a_copy_is_equal_whatever_changes_between_its_parts(
    removed_max: int, steps: list[tuple[str, str | int]], rows_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_changes, "REMOVED_MAX", removed_max)
        copied = Copied()
        for what, value in steps:
            getattr(copied, what)(value)
        while copied.copy(rows_max):
            pass
        assert copied.replica == copied.table
        assert copied.count == copied.changes.count


def test_a_change_costs_one_row() -> None:
    copied = Copied()
    for number in range(1_000):
        copied.put(f"row{number}")
    while copied.copy(100):
        pass
    assert copied.parts == 10
    copied.put("row5")
    copied.drop("row7")
    part = copied.changes.since(copied.count, lambda name: 1)
    assert (part.rows, part.removed, part.is_delta) == (["row5"], ["row7"], True)


def test_a_row_that_changes_all_the_time_comes_last() -> None:
    """It does not keep the copy from the other rows, and its last state arrives."""
    copied = Copied()
    for number in range(100):
        copied.put(f"row{number}")
    while copied.copy(10):
        copied.put("row0")
    assert copied.replica == copied.table
    assert copied.parts <= 12


def test_a_large_row_is_a_part() -> None:
    changes = RowChanges[str]()
    for name in "abc":
        changes.touch(name)
    part = changes.since(None, lambda name: 10, 1)
    assert (part.rows, part.has_more) == (["a"], True)


@pytest.mark.parametrize("count", [None, 5, 99])
def test_an_unknown_count_begins_at_the_first_row(count: int | None) -> None:
    changes = RowChanges[str]()
    for _ in range(10):
        changes.touch("x")
    changes.renew(["a", "b"])
    changes.touch("a")
    part = changes.since(count)
    assert (part.rows, part.is_delta, part.count) == (["b", "a"], False, changes.count)


def test_without_sizes_all_rows_are_one_part() -> None:
    """For replicas that do not ask in parts."""
    changes = RowChanges[int]()
    for number in range(10_000):
        changes.touch(number)
    part = changes.since(None, None, 1)
    assert len(part.rows) == 10_000
    assert not part.has_more


def test_a_step_is_a_change_without_rows() -> None:
    changes = RowChanges[str]()
    changes.touch("a")
    before = changes.count
    changes.step()
    part = changes.since(before)
    assert (part.rows, part.is_delta, part.count) == ([], True, before + 1)
