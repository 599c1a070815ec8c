"""A set of numbers as ranges, compared with a set of numbers."""

from random import Random

from epochmq.store.ranges import RANGES_MAX, Ranges


def test_it_covers_what_was_added() -> None:
    rng = Random("ranges")
    for _ in range(50):
        ranges, model = Ranges(), set[int]()
        for _ in range(12):
            low = rng.randrange(60)
            high = low + rng.randrange(9)
            ranges.add(low, high)
            model.update(range(low, high))
            low = rng.randrange(60)
            high = low + rng.randrange(9)
            assert ranges.covers(low, high) == (set(range(low, high)) <= model)


def test_without_room_it_forgets_the_smallest() -> None:
    ranges = Ranges()
    for number in range(RANGES_MAX):
        ranges.add(number * 10, number * 10 + 2)
    ranges.add(5, 6)
    assert not ranges.covers(5, 6)
    assert ranges.covers(0, 2)
    ranges.clear()
    assert not ranges.covers(0, 1)
