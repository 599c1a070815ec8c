"""What replicas must agree on, and what each kind of disagreement is called."""

import pytest

from epochmq.base.errors import PeerError, UsageError
from epochmq.spark.jobs.audit_core import (
    DAMAGED,
    UNKNOWN_EPOCH,
    DigestBlock,
    Epoch,
    Finding,
    FindingKind,
    Shape,
    SharedBytes,
    alone_findings,
    check_block_bytes,
    check_blocks,
    check_shapes,
    damaged_findings,
    end_findings,
    epoch_findings,
    limit_of,
    spans,
    splits,
)


def shape(
    name: str, start: int = 0, end: int = 1000, confirmed: int = 1000, *epochs: Epoch
) -> Shape:
    return Shape(name, start, end, confirmed, epochs)


def kinds(found: list[Finding]) -> list[tuple[FindingKind, int, int, tuple[str, ...]]]:
    return [finding[:4] for finding in found]


def test_the_limit_is_the_highest_confirmed_offset_that_anybody_knows() -> None:
    both = [shape("a", confirmed=700), shape("b", confirmed=600)]
    assert limit_of(both) == 700
    assert limit_of(both, 650) == 650
    assert limit_of(both, 900) == 700


def test_without_a_controller_the_shortest_log_is_the_limit() -> None:
    assert limit_of([shape("a", confirmed=0), shape("b", end=800, confirmed=0)]) == 800


def test_spans_are_cut_where_a_log_begins_or_ends() -> None:
    three = [shape("a", 0, 1000), shape("b", 200, 900), shape("c", 200, 1500)]
    assert spans(three, 1000) == [
        SharedBytes(0, 200, ("a",)),
        SharedBytes(200, 900, ("a", "b", "c")),
        SharedBytes(900, 1000, ("a", "c")),
    ]
    assert kinds(alone_findings(spans(three, 1000))) == [(FindingKind.ALONE, 0, 200, ("a",))]


def test_logs_that_have_nothing_in_common_leave_a_hole() -> None:
    assert spans([shape("a", 0, 100), shape("b", 500, 900)], 900) == [
        SharedBytes(0, 100, ("a",)),
        SharedBytes(500, 900, ("b",)),
    ]


def test_damaged_blocks_are_not_compared_but_reported() -> None:
    span = SharedBytes(0, 50, ("a", "b", "c"))
    same = [DigestBlock(n * 10, 10, "x") for n in range(5)]
    a = [block._replace(digest=DAMAGED) if block.offset in (10, 20) else block for block in same]
    b = [block._replace(digest="y") if block.offset == 20 else block for block in same]
    assert splits(span, {"a": a, "b": same, "c": same}) == []
    assert splits(span, {"a": a, "b": b, "c": same}) == [(20, 30, (("b",), ("c",)))]
    assert kinds(damaged_findings("a", a[::-1])) == [(FindingKind.DAMAGED, 10, 30, ("a",))]
    assert damaged_findings("b", b) == []


def test_neighbouring_blocks_with_one_grouping_are_one_split() -> None:
    span = SharedBytes(0, 50, ("a", "b", "c"))
    same = [DigestBlock(n * 10, 10, "x") for n in range(5)]
    b = [block._replace(digest="y") if block.offset in (10, 20) else block for block in same]
    c = [block._replace(digest="z") if block.offset == 30 else block for block in same]
    found = splits(span, {"a": same, "b": b, "c": c})
    assert found == [(10, 30, (("a", "c"), ("b",))), (30, 40, (("a", "b"), ("c",)))]


def test_a_block_nobody_asked_for_is_refused() -> None:
    good = [DigestBlock(0, 10, "x"), DigestBlock(10, 10, "x")]
    assert check_blocks("a", 0, 25, 10, good) is good
    with pytest.raises(PeerError, match="a answered with a block of 9 bytes at 10"):
        check_blocks("a", 0, 25, 10, [good[0], DigestBlock(10, 9, "x")])
    with pytest.raises(PeerError):
        check_blocks("a", 0, 10, 10, good)


def test_different_masters_of_one_offset_are_found_and_unknown_ones_agree() -> None:
    a = shape("a", 0, 1000, 1000, Epoch(1, 0), Epoch(2, 500))
    b = shape("b", 0, 1000, 1000, Epoch(1, 0), Epoch(3, 400))
    c = shape("c", 0, 1000, 1000, Epoch(3, 700))
    found = epoch_findings([a, b, c], 1000)
    assert kinds(found) == [
        (FindingKind.EPOCHS, 400, 500, ("a", "b")),
        (FindingKind.EPOCHS, 500, 700, ("a", "b")),
        (FindingKind.EPOCHS, 700, 1000, ("a", "b", "c")),
    ]
    assert found[0].text == "written by epoch 1 at a, epoch 3 at b"
    assert c.epoch_at(699) == UNKNOWN_EPOCH


def test_an_epoch_without_bytes_may_be_missing() -> None:
    a = shape("a", 0, 1000, 1000, Epoch(1, 0), Epoch(2, 500), Epoch(3, 500))
    b = shape("b", 0, 1000, 1000, Epoch(1, 0), Epoch(3, 500))
    assert epoch_findings([a, b], 1000) == []


def test_epochs_behind_the_confirmed_offset_may_differ() -> None:
    a = shape("a", 0, 1000, 800, Epoch(1, 0), Epoch(2, 800))
    b = shape("b", 0, 1000, 800, Epoch(1, 0), Epoch(3, 800))
    assert epoch_findings([a, b], 800) == []


def test_ends_before_and_behind_the_confirmed_offset_are_told_apart() -> None:
    three = [shape("a", end=1200), shape("b", end=900, confirmed=800), shape("c", end=900)]
    found = end_findings(three, 1000)
    assert kinds(found) == [
        (FindingKind.BEYOND, 1000, 1200, ("a",)),
        (FindingKind.SHORT, 900, 1000, ("b",)),
        (FindingKind.SHORT, 900, 1000, ("c",)),
    ]
    assert "it lags" in found[1].text
    assert "bytes are gone" in found[2].text
    assert [finding.kind.is_legal for finding in found] == [True, False, False]
    assert kinds(end_findings([shape("a", end=999), shape("b", end=1001)], 1000)) == [
        (FindingKind.SHORT, 999, 1000, ("a",)),
        (FindingKind.BEYOND, 1000, 1001, ("b",)),
    ]
    assert end_findings([shape("a", end=1000)], 1000) == []


@pytest.mark.parametrize(
    ("shapes", "says"),
    [([shape("a")], "1 replicas"), ([shape("a"), shape("a")], "same name")],
)
def test_what_cannot_be_compared(shapes: list[Shape], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_shapes(shapes)
    with pytest.raises(PeerError, match="cannot be"):
        check_shapes([shape("a", 10, 5), shape("b")])


@pytest.mark.parametrize("size", [0, 1024, 5000, 1 << 30])
def test_block_sizes(size: int) -> None:
    check_block_bytes(4096)
    with pytest.raises(UsageError, match="power of two"):
        check_block_bytes(size)
