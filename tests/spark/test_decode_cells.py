"""Cells: ranges of a buffer as binary and as text, broken UTF-8 mended cell by cell."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from epochmq.spark import decode_heads as cells
from epochmq.spark.decode_heads import Bytes, Ints

PIECES = st.lists(st.one_of(st.binary(max_size=5), st.text(max_size=4).map(str.encode)), max_size=8)


def laid_out(pieces: list[bytes]) -> tuple[Bytes, Ints, Ints]:
    """The pieces with something between them, and where each begins and ends."""
    raw, starts, ends = bytearray(b"##"), [], []
    for piece in pieces:
        starts.append(len(raw))
        raw += piece
        ends.append(len(raw))
        raw += b"\xc3#"
    return np.frombuffer(raw, np.uint8), np.array(starts, np.int64), np.array(ends, np.int64)


@given(PIECES)
def test_each_range_is_one_cell(pieces: list[bytes]) -> None:
    found = cells.binary(*laid_out(pieces))
    found.validate(full=True)
    assert found.to_pylist() == pieces


@given(PIECES)
def test_text_is_what_python_reads_with_replacement(pieces: list[bytes]) -> None:
    found = cells.text(*laid_out(pieces))
    found.validate(full=True)
    assert found.to_pylist() == [piece.decode("utf-8", "replace") for piece in pieces]


def test_a_character_cut_by_a_cell_border_is_broken_in_both() -> None:
    first, second = "é".encode()[:1], "é".encode()[1:]
    assert cells.text(*laid_out([first, second])).to_pylist() == ["�", "�"]
    array = pa.array([first, second], pa.binary())
    assert cells.as_text(array).to_pylist() == ["�", "�"]


@given(st.text(max_size=5), st.integers(0, 9))
def test_a_text_is_repeated_in_every_cell(text: str, count: int) -> None:
    found = cells.repeated(text, count)
    found.validate(full=True)
    assert found.to_pylist() == [text] * count


@given(st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=9))
def test_cells_of_one_size_are_gathered_alike(pieces: list[bytes]) -> None:
    found = cells.binary(*laid_out(pieces))
    found.validate(full=True)
    assert found.to_pylist() == pieces
