"""Keys wait until their record is readable, and go with it when it is cut."""

from random import Random

from sim.kernel.disk import SimDisk
from tests.store.replicas import REPLICATED, WALL, fill, opened
from tests.store.store_internals import index_of
from tests.store.world import draft

from epochmq.native.native_index import KEY_BYTES, PackedKeys, place_of
from epochmq.store.draft import Appended
from epochmq.store.held_keys import Staged, cut_rows, ready_rows, waiting_keys


def test_keys_follow_the_confirmed_offset() -> None:
    store = opened()
    placed = fill(store, 6)
    staged = store._appender.staged
    assert len(staged) == 6
    for count, place in enumerate(placed):
        assert ready_rows(staged, place.offset, store._log) == count
        assert ready_rows(staged, place.offset + place.size - 1, store._log) == count
    assert ready_rows(staged, placed[5].offset + placed[5].size, store._log) == 6
    store.limit_confirm(placed[3].offset)
    store.tick(0, WALL)
    assert (len(staged), index_of(store).last_offset) == (3, placed[2].offset)


def packed(offsets: list[int], end: int) -> PackedKeys:
    data = b"".join(
        offset.to_bytes(8, "little") + bytes(8) + bytes(KEY_BYTES - 16) for offset in offsets
    )
    assert place_of(data, 0)[0] == offsets[0]
    return PackedKeys(data, offsets[0], end, 0)


def test_packed_keys_are_cut_inside() -> None:
    staged: Staged = [("T", ("k",), 0, 0), packed([100, 200, 200, 300], 400)]
    log = opened()._log
    assert ready_rows(staged, 399, log) == 1
    assert ready_rows(staged, 400, log) == 2
    cut_rows(staged, 300)
    last = staged[1]
    assert isinstance(last, PackedKeys)
    assert (len(last), last.end) == (3, 300)
    cut_rows(staged, 100)
    assert len(staged) == 1
    cut_rows(staged, 0)
    assert staged == []
    cut_rows(staged, 0)
    assert ready_rows(staged, 5, log) == 0


def test_packed_keys_are_shown_as_far_as_they_are_readable() -> None:
    """A chunk's keys come packed; confirmation may end inside the chunk."""
    store = opened()
    placed = fill(store, 6)
    offsets = [place.offset for place in placed for _ in range(2)]
    end = placed[5].offset + placed[5].size
    for place in placed:
        for readable in (place.offset, place.offset + 1, place.offset + place.size - 1):
            staged: Staged = [packed(offsets, end)]
            count = ready_rows(staged, readable, store._log)
            rows = [len(row) for row in staged if isinstance(row, PackedKeys)]
            below = 2 * placed.index(place)
            assert (count, rows) == ((1, [below, 12 - below]) if below else (0, [12]))
            assert [row.offset for row in staged[1:] if isinstance(row, PackedKeys)] == (
                [place.offset] if below else []
            )
    assert waiting_keys([*staged, ("T", ("k",), 0, 0)]) == 13


def test_keys_indexed_early_are_made_again_after_a_cut() -> None:
    """A clean restart in plain mode indexes all; the cut takes those files and stages the rest."""
    from dataclasses import replace

    disk = SimDisk()
    plain = opened(disk, replace(REPLICATED, replicated=False))
    placed = fill(plain, 40)
    plain.close(WALL)
    store = opened(disk)
    cut = store.truncate(placed[20].offset, "an order", operator=True)
    assert cut.count == 20
    store.tick(0, WALL)
    assert store.verify().problems == []
    rng = Random(3)
    (result,) = store.append([draft(900, rng)], WALL + 100)
    assert isinstance(result, Appended)
    store.limit_confirm(None)
    store.tick(100, WALL)
    assert store.verify().problems == []
    assert len(store.query_index("T0", "k900", 5, 0, 1 << 60).records) <= 1
