"""Sets of numbers as bits, against Python's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.store.seen import CHUNK, SeenNumbers

numbers = st.integers(0, 3 * CHUNK) | st.integers(0, 1 << 40)


@given(st.lists(numbers, max_size=60), st.lists(numbers, max_size=20))
def test_it_is_a_set(added: list[int], asked: list[int]) -> None:
    seen = SeenNumbers()
    for number in added:
        seen.add(number)
    for known in (seen, SeenNumbers.load(*seen.save(), 1000)):
        assert all(number in known for number in added)
        assert [number in known for number in asked] == [number in added for number in asked]
        assert known.weight == seen.weight <= len(added)


@given(st.integers(0, 3 * CHUNK), st.integers(0, 3 * CHUNK), st.integers(1, 3))
def test_runs_take_no_memory(start: int, count: int, step: int) -> None:
    seen, stop = SeenNumbers(), start + count * step
    for number in range(start, stop, step):
        seen.add(number)
    assert all((number in seen) for number in range(start, stop, step))
    assert start - 1 not in seen
    assert (stop - 1 + step) not in seen
    assert seen.weight <= 2 or step > 1
    again = SeenNumbers.load(*seen.save(), 100)
    assert again.save() == seen.save()


@given(st.lists(st.tuples(st.integers(0, 3 * CHUNK), st.integers(0, CHUNK + 9)), max_size=6))
def test_runs_are_their_numbers(added: list[tuple[int, int]]) -> None:
    by_run, singly = SeenNumbers(), SeenNumbers()
    for first, count in added:
        known = any(number in singly for number in range(first, first + count))
        assert by_run.has_any(first, count) == known
        by_run.add_run(first, count)
        for number in range(first, first + count):
            singly.add(number)
        assert by_run.save() == singly.save()
        assert by_run.weight == singly.weight
        assert not by_run.has_any(first, 0)
        assert by_run.has_any(first, count) == (count > 0)


def test_a_whole_chunk_stays_whole() -> None:
    seen = SeenNumbers()
    for number in range(CHUNK):
        seen.add(number)
    assert seen.save() == ([(0, 1)], {})
    seen.add(5)
    assert seen.save() == ([(0, 1)], {})
    again = SeenNumbers.load([(0, 1)], {}, 10)
    again.add(5)
    assert 5 in again
    assert again.weight == 0


@pytest.mark.parametrize(
    ("full", "some"),
    [
        ([(-1, 2)], {}),
        ([(0, 0)], {}),
        ([(0, 1 << 40)], {}),
        ([], {"0": "AAAA"}),
        ([], {"0": "?"}),
        ([], {"x": ""}),
        ([], {str(n): "" for n in range(11)}),
    ],
)
def test_what_cannot_be(full: list[tuple[int, int]], some: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        SeenNumbers.load(full, some, 10)
