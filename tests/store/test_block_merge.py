"""Two damaged copies of a block: together they give what was written, or nothing."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from epochmq.model.crc import crc32
from epochmq.store.block_merge import PLACES_MAX, merge

SIZE = 16 * 1024
RIGHT = Random(5).randbytes(SIZE)


def damaged(*places: int, right: bytes = RIGHT, length: int = 3) -> bytes:
    copy = bytearray(right)
    for place in places:
        for at in range(place, place + length):
            copy[at] ^= 0x11
    return bytes(copy)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 15), min_size=1, max_size=PLACES_MAX, unique=True), st.data())
def test_each_place_comes_from_the_copy_that_is_right(
    places: list[int], data: st.DataObject
) -> None:
    mine = [place for place in places if data.draw(st.booleans())]
    theirs = [place for place in places if place not in mine]
    copies = [damaged(*(1000 * place for place in one)) for one in (mine, theirs)]
    assert merge(*copies, crc32(RIGHT)) == RIGHT


@pytest.mark.parametrize("sector", [512, 4096])
def test_whole_sectors(sector: int) -> None:
    right = (bytes(300) + RIGHT)[:SIZE]  # zeros that a lost sector has as well
    mine = bytes(sector) + right[sector:]
    theirs = right[: 2 * sector] + bytes(sector) + right[3 * sector :]
    assert merge(mine, theirs, crc32(right)) == right


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (damaged(100), damaged(101)),
        (damaged(100, 900), damaged(100, 5000)),
        (damaged(100), damaged(100)),
        (damaged(100), damaged(5000)[:-1]),
        (damaged(*range(0, SIZE - 10, 600)), damaged(300)),
    ],
    ids=["overlap", "one place in both", "equal", "shorter", "many places"],
)
def test_what_cannot_be_told_is_not_guessed(mine: bytes, theirs: bytes) -> None:
    assert merge(mine, theirs, crc32(RIGHT)) is None
