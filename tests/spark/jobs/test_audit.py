"""Every planted difference is found, nothing else; the same over directories."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.jobs.replicas import Held, held, make_log, write_store
from tests.tiers import examples

from epochmq.base.errors import PeerError, UsageError
from epochmq.spark.jobs.audit import Audit, asks_of, plan, run_audit, whole
from epochmq.spark.jobs.audit_core import DAMAGED, DigestBlock, Epoch, FindingKind, Shape
from epochmq.spark.jobs.audit_sources import StoreReplica

LOG = make_log(400, seed=7)
NAMES = ("a", "b", "c")
BLOCK = 4096
FIRST = (Epoch(1, 0),)


def audit_of(replicas: list[Held], **more: int) -> Audit:
    return run_audit(replicas, block_bytes=BLOCK, **more)


def found(
    audit: Audit, *wanted: FindingKind
) -> list[tuple[FindingKind, int, int, tuple[str, ...]]]:
    return [f[:4] for f in audit.findings if f.kind in wanted]


def test_equal_replicas_are_sound_and_wholly_compared() -> None:
    audit = audit_of([held(name, LOG, confirmed=LOG.end, epochs=FIRST) for name in NAMES])
    assert audit.is_sound
    assert audit.findings == []
    assert audit.confirmed
    assert audit.compared_bytes == 3 * LOG.end
    assert audit.blocks == -(-LOG.end // BLOCK)


offsets = st.integers(0, LOG.end - 1)


@settings(max_examples=examples(80))
@given(
    limit=st.sampled_from(LOG.starts[200:]),
    flips=st.tuples(*(st.lists(offsets, max_size=4).map(set) for _ in NAMES)),
    ends=st.tuples(*(st.integers(LOG.starts[150], LOG.end) for _ in NAMES)),
    turn=st.tuples(*(st.none() | st.sampled_from(LOG.starts[100:300]) for _ in NAMES)),
)
def test_what_was_planted_is_found_and_nothing_else(
    limit: int,
    flips: tuple[set[int], ...],
    ends: tuple[int, ...],
    turn: tuple[int | None, ...],
) -> None:
    replicas = [
        held(
            name,
            LOG,
            confirmed=limit if name == "b" else 0,
            end=end,
            flips=tuple(at for at in mine if at < end),
            epochs=(*FIRST, *(() if start is None else (Epoch(2, start),))),
        )
        for name, mine, end, start in zip(NAMES, flips, ends, turn, strict=True)
    ]
    audit = audit_of(replicas)
    assert audit.limit == limit
    # Bytes: by brute force over the replicas as they are.
    planted = {
        at
        for mine in flips
        for at in mine
        if at < limit and len({r.data[at] for r in replicas if at < r.shape.end}) > 1
    }
    inside = {at for d in audit.differences for at in planted if d.low <= at < d.high}
    assert inside == planted
    for each in audit.differences:
        mine = {at for at in planted if each.low <= at < each.high}
        assert (each.first, each.last) == (min(mine), max(mine))
        named = {p.offset for r in each.records for p in r.values()}
        touched = {LOG.record_at(at) for at in mine} - {None}
        assert touched - named <= set(_where_all_are_damaged(replicas, touched))
    # Epochs: they change at these offsets only.
    ranges = found(audit, FindingKind.EPOCHS)
    for at in {0, *ends, *(start for start in turn if start is not None)}:
        differ = len({r.shape.epoch_at(at) for r in replicas if at < r.shape.end}) > 1
        inside_one = any(low <= at < high for _, low, high, _ in ranges)
        assert inside_one == (differ and at < limit)
    # Ends.
    short = {r.shape.name: r.shape.end for r in replicas if r.shape.end < limit}
    assert {names[0]: low for _, low, _, names in found(audit, FindingKind.SHORT)} == short
    beyond = {r.shape.name: r.shape.end for r in replicas if r.shape.end > limit}
    assert {names[0]: high for _, _, high, names in found(audit, FindingKind.BEYOND)} == beyond
    assert audit.is_sound == (not planted and not ranges and not short)


def _where_all_are_damaged(replicas: list[Held], starts: set[int | None]) -> list[int | None]:
    return [
        at
        for at in starts
        if at is not None
        and sum(r.data[at : at + 88] != LOG.data[at : at + 88] for r in replicas) > 1
    ]


def test_directories_are_compared_like_replicas_in_memory(tmp_path: Path) -> None:
    at = LOG.starts[120] + 92
    roots = [
        write_store(tmp_path / "a", LOG, confirmed=LOG.end, epochs=FIRST),
        write_store(tmp_path / "b", LOG, confirmed=LOG.starts[300], epochs=FIRST, flips=(at,)),
        write_store(tmp_path / "c", LOG, epochs=FIRST, end=LOG.starts[380]),
    ]
    replicas = [StoreReplica(n, str(root)) for n, root in zip(NAMES, roots, strict=True)]
    audit = run_audit(replicas, block_bytes=BLOCK)
    assert found(audit, *FindingKind) == [
        (FindingKind.BYTES, at, at + 1, NAMES[:1] + NAMES[2:] + NAMES[1:2]),
        (FindingKind.SHORT, LOG.starts[380], LOG.end, ("c",)),
    ]
    text = audit.findings[0].text
    assert f"record at {LOG.starts[120]}: orders/0 offset 30, id ID000120" in text
    assert text.endswith("wrong is probably b")


def test_nothing_confirmed_means_the_shortest_log_counts() -> None:
    pair = [held("a", LOG, confirmed=0), held("b", LOG, confirmed=0, end=LOG.starts[300])]
    audit = audit_of(pair)
    assert not audit.confirmed
    assert audit.limit == LOG.starts[300]
    assert audit.is_sound


def test_requests_are_pieces_that_end_at_block_bounds() -> None:
    shapes = [Shape(name, 0, 1_000_000, 1_000_000) for name in NAMES[:2]]
    asks = asks_of(plan(shapes, None, BLOCK), 64 << 10)
    assert {ask.low % (64 << 10) for ask in asks} == {0}
    assert sum(ask.high - ask.low for ask in asks) == 2_000_000


def test_a_replica_that_stops_answering_is_named() -> None:
    class Silent:
        shape = Shape("quiet", 0, LOG.end, LOG.end)

        def read(self, low: int, high: int) -> bytes:
            return b""

        def digests(self, low: int, high: int, block_bytes: int) -> list[DigestBlock]:
            return []

    with pytest.raises(PeerError, match="quiet gives no digests of its log from 0 on"):
        run_audit([Silent(), held("a", LOG, confirmed=LOG.end)])


def test_bytes_that_are_repaired_before_they_are_read() -> None:
    """Their digest differs, but they are equal when the audit reads them: it says so."""

    class Repaired:
        def __init__(self, now: Held, before: Held) -> None:
            self.shape, self.read, self.digests = now.shape, now.read, before.digests

    at = LOG.starts[120] + 92
    now, before = (held("b", LOG, confirmed=LOG.end, flips=flips) for flips in ((), (at,)))
    audit = audit_of([held("a", LOG, confirmed=LOG.end), Repaired(now, before)])
    low = at - at % BLOCK
    assert found(audit, *FindingKind) == [(FindingKind.BYTES, low, low + BLOCK, ("a", "b"))]
    assert audit.findings[0].text.endswith("run the audit again")


def test_damage_that_a_replica_knows_is_a_finding_of_its_own() -> None:
    class Damaged:
        def __init__(self, replica: Held, low: int) -> None:
            self.shape, self._replica, self._low = replica.shape, replica, low

        def read(self, low: int, high: int) -> bytes:
            return self._replica.read(low, min(high, max(low, self._low)))

        def digests(self, low: int, high: int, block_bytes: int) -> list[DigestBlock]:
            return [
                block._replace(digest=DAMAGED if block.offset == self._low else block.digest)
                for block in self._replica.digests(low, high, block_bytes)
            ]

    flip = 9 * BLOCK + 5  # right behind the damage: the record there cannot be read at "a"
    replicas = [
        Damaged(held("a", LOG, confirmed=LOG.end, flips=(flip,)), 8 * BLOCK),
        held("b", LOG, confirmed=LOG.end),
    ]
    audit = audit_of(replicas)
    assert found(audit, *FindingKind) == [
        (FindingKind.DAMAGED, 8 * BLOCK, 9 * BLOCK, ("a",)),
        (FindingKind.BYTES, 9 * BLOCK, 10 * BLOCK, ("a", "b")),
    ]


def test_an_answer_in_parts_is_asked_for_to_its_end() -> None:
    replica = held("a", LOG, confirmed=LOG.end)
    ask = asks_of(plan([replica.shape, Shape("b", 0, LOG.end, 0)], None, BLOCK))[0]
    blocks = whole(replica, ask)
    assert blocks[-1].offset + blocks[-1].size == LOG.end


@pytest.mark.parametrize("up_to", [0, -5])
def test_an_offset_that_makes_no_sense(up_to: int) -> None:
    with pytest.raises(UsageError, match="above 0"):
        audit_of([held(name, LOG, confirmed=1) for name in NAMES], up_to=up_to)
