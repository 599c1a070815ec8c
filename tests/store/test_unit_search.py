"""Finding the record of a damaged unit, slice by slice, over files and up to damage."""

from dataclasses import replace
from functools import partial
from random import Random

import pytest
from sim.kernel.disk import SimDisk
from tests.store.world import HOST, SMALL, draft

from epochmq.store import unit_search
from epochmq.store.draft import Appended
from epochmq.store.scan import DispatchEntry
from epochmq.store.store import Store
from epochmq.store.unit_search import UnitSearch

WALL = 1_700_000_000_000


def filled() -> tuple[Store, list[Appended]]:
    """Some files' worth of records."""
    store = Store.open(SimDisk(), replace(SMALL, wide_topics=True), HOST, WALL)
    rng = Random("search")
    placed = [store.append([draft(n, rng)], WALL)[0] for n in range(40)]
    assert len(store._log.segments) > 3
    return store, [place for place in placed if isinstance(place, Appended)]


@pytest.mark.parametrize("slice_bytes", [8, 200, 4096])
def test_it_finds_each_record(monkeypatch: pytest.MonkeyPatch, slice_bytes: int) -> None:
    monkeypatch.setattr(unit_search, "SLICE_BYTES", slice_bytes)
    store, placed = filled()
    for place in placed[::7]:
        search = UnitSearch(store._log, 0, store._log.end, partial(_begins_at, place.offset))
        while not search.over:
            search.step()
        assert search.found is not None
        assert search.found.size == place.size


def _begins_at(offset: int, entry: DispatchEntry) -> bool:
    return entry.offset == offset


def test_it_ends_at_the_limit_and_at_damage() -> None:
    store, placed = filled()
    search = UnitSearch(store._log, 0, placed[5].offset, lambda _entry: False)
    while not search.over:
        search.step()
    assert (search.at, search.bad, search.found) == (placed[5].offset, None, None)
    segment = store._log.find(placed[7].offset)
    assert segment is not None
    segment.write(placed[7].offset + 4, b"?")
    search = UnitSearch(store._log, 0, store._log.end, lambda _entry: False)
    while not search.over:
        search.step()
    assert (search.at, search.bad) == (placed[7].offset, "unknown magic")
    search = UnitSearch(store._log, 1 << 40, 1 << 41, lambda _entry: False)
    search.step()
    assert search.bad == "there is no such log file"
