"""Job `audit`: checks that all replicas of a broker group have the same log up to the confirmed
offset.

The replicas compute the digests (`LOG_DIGESTS`), or this machine or a Spark cluster does, from
copies of their directories. Only blocks that differ are read (docs/PIPELINE.md, adr/0043).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from epochmq.base.errors import PeerError, UsageError
from epochmq.model.log_blocks import blocks_of
from epochmq.spark.jobs import audit_core as core
from epochmq.spark.jobs.audit_core import DigestBlock, Finding, FindingKind, Shape, SharedBytes
from epochmq.spark.jobs.audit_drill import RECORDS_MAX, Difference, drill

ASK_BYTES_MAX = 64 << 20
"""The most bytes of log in one request for digests."""
DIFFERENCES_MAX = 1_000
"""The most runs of differing blocks that are read; later ones are only counted."""


class AuditedReplica(Protocol):
    """The log of one replica: a directory, or a broker."""

    shape: Shape

    def read(self, low: int, high: int) -> bytes:
        """Return the bytes of `[low, high)` as far as the replica has them."""

    def digests(self, low: int, high: int, block_bytes: int) -> list[DigestBlock]:
        """Return digests of the blocks of `[low, high)`, of all or of the first ones."""


class DigestRequest(NamedTuple):
    """A request for digests of one replica's bytes `[low, high)`."""

    name: str
    low: int
    high: int
    block_bytes: int


Digester = Callable[
    [Sequence[DigestRequest]], Iterable[tuple[DigestRequest, Sequence[DigestBlock]]]
]
"""Answers each request with all its blocks, in any order."""
Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in total)."""


@dataclass(slots=True)
class Audit:
    """The result of a comparison of bytes `[low, limit)`, which must be the same in all
    replicas.
    """

    shapes: tuple[Shape, ...]
    low: int
    limit: int
    confirmed: bool
    """Whether `limit` is a confirmed offset: False if no replica knew one, or `up_to` lowered
    it.
    """
    block_bytes: int
    spans: list[SharedBytes]
    compared_bytes: int = 0
    blocks: int = 0
    findings: list[Finding] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    seconds: float = 0.0
    unread: int = 0
    """The number of runs of differing blocks beyond DIFFERENCES_MAX."""

    @property
    def problems(self) -> list[Finding]:
        """Return the findings that are errors."""
        return [finding for finding in self.findings if not finding.kind.is_legal]

    @property
    def is_sound(self) -> bool:
        return not self.problems


def plan(shapes: Sequence[Shape], up_to: int | None, block_bytes: int) -> Audit:
    """Plan a comparison; raises `UsageError` for replicas or sizes that are invalid."""
    core.check_shapes(shapes)
    core.check_block_bytes(block_bytes)
    if up_to is not None and up_to <= 0:
        raise UsageError(f"up to {up_to}: give a log offset above 0")
    limit = core.limit_of(shapes, up_to)
    found = core.spans(shapes, limit)
    audit = Audit(
        tuple(shapes),
        found[0].low if found else limit,
        limit,
        any(shape.confirmed >= limit for shape in shapes),
        block_bytes,
        found,
    )
    audit.findings += core.epoch_findings(shapes, limit)
    audit.findings += core.end_findings(shapes, limit)
    audit.findings += core.alone_findings(found)
    return audit


def asks_of(audit: Audit, most: int = ASK_BYTES_MAX) -> list[DigestRequest]:
    """Return the requests for digests of a plan, in pieces that end at block borders."""
    piece = max(most // audit.block_bytes, 1) * audit.block_bytes
    return [
        DigestRequest(name, low, low + size, audit.block_bytes)
        for span in audit.spans
        if len(span.holders) > 1
        for low, size in blocks_of(span.low, span.high, piece)
        for name in span.holders
    ]


def run_audit(
    replicas: Sequence[AuditedReplica],
    *,
    up_to: int | None = None,
    block_bytes: int = core.BLOCK_BYTES,
    digester: Digester | None = None,
    progress: Progress | None = None,
    records_max: int = RECORDS_MAX,
) -> Audit:
    """Compare `replicas`; without a `digester`, one thread per replica computes its digests."""
    began = time.monotonic()
    audit = plan([replica.shape for replica in replicas], up_to, block_bytes)
    by_name = {replica.shape.name: replica for replica in replicas}
    asks = asks_of(audit)
    total = sum(ask.high - ask.low for ask in asks)
    blocks: dict[str, list[DigestBlock]] = {name: [] for name in by_name}
    for ask, answered in (digester or threads(by_name))(asks):
        core.check_blocks(ask.name, ask.low, ask.high, block_bytes, answered)
        blocks[ask.name] += answered
        audit.compared_bytes += ask.high - ask.low
        if progress is not None:
            progress(audit.compared_bytes, total)
    for span in audit.spans:
        if len(span.holders) > 1:
            _compare(audit, span, blocks, by_name, records_max)
    audit.findings.sort(key=lambda finding: (finding.kind.is_legal, finding.low, finding.high))
    audit.seconds = time.monotonic() - began
    return audit


def threads(replicas: dict[str, AuditedReplica]) -> Digester:
    """Return a digester with one thread per replica.

    Hashing releases the interpreter's lock, and each broker gets one request at a time.
    """

    def digest(
        asks: Sequence[DigestRequest],
    ) -> Iterable[tuple[DigestRequest, Sequence[DigestBlock]]]:
        with ExitStack() as stack:
            pools = {
                name: stack.enter_context(ThreadPoolExecutor(max_workers=1)) for name in replicas
            }
            queued = [
                (ask, pools[ask.name].submit(whole, replicas[ask.name], ask))
                for ask in sorted(asks, key=lambda each: each.low)
            ]
            try:
                for ask, future in queued:
                    yield ask, future.result()
            finally:
                for _, future in queued:
                    future.cancel()

    return digest


def whole(replica: AuditedReplica, ask: DigestRequest) -> list[DigestBlock]:
    """Return all blocks of `ask`, in as many requests as the replica needs."""
    found: list[DigestBlock] = []
    low = ask.low
    while low < ask.high:
        blocks = replica.digests(low, ask.high, ask.block_bytes)
        if not blocks:
            raise PeerError(
                f"{ask.name} gives no digests of its log from {low} on, though it holds it; has it"
                " been cut, or its old files deleted meanwhile? try again"
            )
        core.check_blocks(ask.name, low, ask.high, ask.block_bytes, blocks)
        found += blocks
        low = blocks[-1].offset + blocks[-1].size
    return found


def _compare(
    audit: Audit,
    span: SharedBytes,
    blocks: dict[str, list[DigestBlock]],
    replicas: dict[str, AuditedReplica],
    records_max: int,
) -> None:
    inside = {
        name: sorted(b for b in blocks[name] if span.low <= b.offset < span.high)
        for name in span.holders
    }
    audit.blocks += len(inside[span.holders[0]])
    for name in span.holders:
        audit.findings += core.damaged_findings(name, inside[name])
    start = max(replicas[name].shape.start for name in span.holders)

    def read(name: str, low: int, high: int) -> bytes:
        return replicas[name].read(low, high)

    for split in core.splits(span, inside):
        if len(audit.differences) >= DIFFERENCES_MAX:
            audit.unread += 1
            continue
        found = drill(split, audit.block_bytes, start, read, records_max)
        audit.differences.append(found)
        audit.findings.append(_finding(found))


def _finding(found: Difference) -> Finding:
    sides = " | ".join(",".join(group) for group in found.groups)
    names = tuple(name for group in found.groups for name in group)
    text = f"not the same bytes: {sides}"
    if found.first < 0:
        text += "; by now they are repaired, or known to be damaged: run the audit again"
        return Finding(FindingKind.BYTES, found.low, found.high, names, text)
    if found.records:
        place = next((p for p in found.records[0].values() if p.is_sound), None)
        if place is not None:
            text += (
                f"; first in the record at {place.offset}: {place.topic}/{place.queue_id}"
                f" offset {place.queue_offset}, id {place.msg_id}"
            )
        else:
            text += f"; first at {found.first}, where no replica holds a whole record"
    if found.suspects:
        text += f"; wrong is probably {','.join(found.suspects)}"
    return Finding(FindingKind.BYTES, found.first, found.last + 1, names, text)
