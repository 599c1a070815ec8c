"""Runs of a sink's messages against plain lists of them."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.sink_mark import SinkKey, SinkMark
from epochmq.store.draft import UNIT
from epochmq.store.sink_runs import MessagePosition, Runs, SinkRun

KEY = SinkKey("s", 0, "T")


def run_of(seq: int, sizes: list[int], offset: int = 1000) -> tuple[SinkRun, list[MessagePosition]]:
    """A run and the places of its messages."""
    units, places = b"", []
    for n, size in enumerate(sizes):
        units += UNIT.pack(offset, size, 7)
        places.append(MessagePosition(offset, size, 3, 40 + n))
        offset += size
    return SinkRun(SinkMark(KEY, 5, seq), len(sizes), 3, 40, units), places


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=20)


@given(sizes)
def test_how_much_of_a_run_lies_before_a_place(lengths: list[int]) -> None:
    run, places = run_of(7, lengths)
    assert [run.place(n) for n in range(run.count)] == places
    for limit in range(998, 1002 + sum(lengths)):
        assert run.ended(limit) == sum(place.offset + place.size <= limit for place in places)
        assert run.begun(limit) == sum(place.offset < limit for place in places)
    assert (run.seq, run.stop) == (7, 7 + len(lengths))


@given(sizes, st.data())
def test_what_is_skipped_is_gone_and_the_rest_is_as_before(
    lengths: list[int], data: st.DataObject
) -> None:
    run, places = run_of(7, lengths)
    gone = data.draw(st.integers(0, len(lengths) - 1))
    run.skip(gone)
    assert [run.place(n) for n in range(run.count)] == places[gone:]
    assert (run.seq, run.stop, run.queue_offset) == (7 + gone, 7 + len(lengths), 40 + gone)
    assert run.ended(1 << 40) == run.begun(1 << 40) == len(lengths) - gone
    assert run.ended(0) == run.begun(0) == 0


@pytest.mark.parametrize("seed", range(30))
def test_many_runs_are_found_as_in_a_dictionary(seed: int) -> None:
    rng = Random(seed)
    runs, known, held = Runs(), dict[int, MessagePosition](), list[SinkRun]()
    for step in range(200):
        seq, count = rng.randrange(300), rng.randrange(1, 12)
        meets = any(number in known for number in range(seq, seq + count))
        assert runs.meets(seq, seq + count) == meets
        if not meets:
            run, places = run_of(seq, [rng.randrange(1, 9) for _ in range(count)], step * 1000)
            runs.add(run)
            held.append(run)
            known.update(zip(range(seq, seq + count), places, strict=True))
        if held and rng.random() < 0.6:
            run = rng.choice(held)
            start, stop = sorted((rng.randrange(run.count + 1), rng.randrange(run.count + 1)))
            for number in (*range(run.seq, run.seq + start), *range(run.seq + stop, run.stop)):
                del known[number]
            runs.keep(run, start, stop)
            if not run.count:
                held.remove(run)
        assert {n: place for n in range(320) if (place := runs.find(n))} == known
        assert len(runs) == len(held)
