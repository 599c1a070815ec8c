"""Checksums computed while blocks are written: equal to those of the bytes, or not known."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.model.crc import crc32
from epochmq.store.written_blocks import BLOCK_BYTES, KEPT_MAX, WrittenBlocks

FILE_BYTES = 2 * BLOCK_BYTES + 5_000
"""The last block of a file is shorter."""

sizes = st.one_of(st.integers(1, 3_000), st.integers(BLOCK_BYTES - 3, BLOCK_BYTES + 3))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), sizes),
        st.tuples(st.just("whole file"), st.just(0)),
        st.tuples(st.just("gap"), st.integers(1, BLOCK_BYTES)),
        st.tuples(st.just("clear"), st.just(0)),
        st.tuples(st.just("drop"), st.integers(0, 4 * FILE_BYTES)),
    ),
    max_size=40,
)


@given(steps)
def test_a_known_checksum_is_that_of_the_block(steps: list[tuple[str, int]]) -> None:
    written = WrittenBlocks()
    log = bytearray()
    dense_from = 0
    """Everything from here on was written in order since the last gap or `clear`."""
    dropped = 0
    for step, value in steps:
        file_start = len(log) // FILE_BYTES * FILE_BYTES
        file_stop = file_start + FILE_BYTES
        if step == "clear":
            written.clear()
            log = bytearray(byte ^ 1 for byte in log)
            dense_from = len(log)
        elif step == "drop":
            written.drop_below(value)
            dropped = max(dropped, value)
        elif step == "gap":
            log += bytes(min(value, file_stop - len(log)))
            dense_from = len(log)
        else:
            size = min(value or FILE_BYTES, file_stop - len(log))
            data = bytes((len(log) + number) % 251 for number in range(size))
            written.add(len(log), data, file_start, file_stop)
            log += data
    for file_start in range(0, len(log), FILE_BYTES):
        for start in range(file_start, file_start + FILE_BYTES, BLOCK_BYTES):
            stop = min(start + BLOCK_BYTES, file_start + FILE_BYTES)
            found = written.crc_of(start)
            if start >= max(dense_from, dropped) and stop <= len(log):
                assert found is not None
            assert found in (None, crc32(log[start:stop]))


def test_so_many_blocks_are_kept_at_most() -> None:
    written = WrittenBlocks()
    stop = (KEPT_MAX + 10) * BLOCK_BYTES
    block = bytes(BLOCK_BYTES)
    for start in range(0, stop, BLOCK_BYTES):
        written.add(start, block, 0, stop)
    assert written.first == 10 * BLOCK_BYTES
    assert written.crc_of(9 * BLOCK_BYTES) is None
    assert written.crc_of(stop - BLOCK_BYTES) == crc32(block)
