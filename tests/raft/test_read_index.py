"""Reads in their rounds."""

from epochmq.raft.read_index import ReadIndex, ReadState


def test_reads_are_confirmed_by_their_round_in_order() -> None:
    reads = ReadIndex()
    reads.add(b"a", 3, 10)
    reads.add(b"b", 4, 11)
    assert (len(reads), reads.round_wanted) == (2, 4)
    assert reads.confirmed(2) == []
    assert reads.confirmed(3) == [ReadState(b"a", 10)]
    assert reads.confirmed(9) == [ReadState(b"b", 11)]
    assert reads.round_wanted == 0


def test_the_unborn_come_later_and_all_fail_together() -> None:
    reads = ReadIndex()
    reads.add_unborn(b"a")
    assert reads.confirmed(99) == []
    assert reads.born() == [b"a"]
    assert reads.born() == []
    reads.add_unborn(b"b")
    reads.add(b"c", 1, 1)
    assert reads.fail() == [ReadState(b"b", None), ReadState(b"c", None)]
    assert len(reads) == 0
