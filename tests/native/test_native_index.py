"""Keys by the native code leave an index file as keys by Python do."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.kernel.disk import SimDisk
from tests.store.store_internals import slots_of

from epochmq.native import library
from epochmq.native.native_index import KEY_BYTES
from epochmq.store.index_file import IndexFile

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.integers(0, 2**45),
        st.one_of(st.sampled_from((0, 1, 2**31 - 1, 2**31, 2**32 - 1)), st.integers(0, 2**32 - 1)),
    ),
    max_size=40,
)


def put(rows: list[tuple[int, int, int]], by_native: bool, stray: int = 0) -> tuple[object, ...]:
    disk = SimDisk()
    disk.make_dir("index")
    file = IndexFile(disk, "index/1", 16, 24, create=True)
    slots = slots_of(file)
    for slot in range(len(slots)):
        slots[slot] = stray
    for low in range(0, len(rows), 7):
        part = rows[low : low + 7]
        if by_native:
            data = b"".join(pack("=qqII", *row, 0) for row in part)
            assert file.put_packed(data) % KEY_BYTES == 0
        else:
            file.put([h for _, _, h in part], [(o, w) for o, w, _ in part])
    file.sync_steps()()
    state = (file.count, file.slots_used, file.first_offset, file.last_offset, file.last_wall_ms)
    return *state, disk.read_file("index/1")


@given(ROWS, st.sampled_from((0, 0, 5, -1)))
def test_both_make_the_same_file(rows: list[tuple[int, int, int]], stray: int) -> None:
    """Whatever a crash left in the slots: they may lead beyond the items."""
    assert put(rows, True, stray) == put(rows, False, stray)
