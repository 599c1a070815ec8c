"""Audit of the confirmed log: epochs 34004, block digests 34005, log bytes 34006 (ADR 0037).

Up to the smaller confirmed offset, the logs of two replicas have the same bytes (INV-10), so the
digests of equal blocks must be equal. Where they differ, LOG_READ 34006 shows the records.
"""

from epochmq.base import limits
from epochmq.base.errors import DiskFailed, Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, check_unsent, known_topic, ok
from epochmq.model.log_blocks import blocks_of, digest
from epochmq.store.written_blocks import BLOCK_BYTES
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import EpochEntryBody
from epochmq.wire.bodies.offset_bodies import EpochOffsets, EpochSpan, LogDigests
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pull_headers import (
    EpochOffsetsHeader,
    LogDigestsHeader,
    LogDigestsResponseHeader,
    LogReadHeader,
    LogReadResponseHeader,
)
from epochmq.wire.session import Session

# Epoch offsets -------------------------------------------------------------------------------
# EPOCH_OFFSETS 34004: the first offset of an epoch in each queue of a topic (ADR 0037).


def handle_epoch_offsets(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply:
    """Answer the first offset of each queue from `epoch` on (EPOCH_OFFSETS 34004).

    If retention deleted the epoch, or the epoch has no message, the next later message counts.
    """
    header = decode_header(EpochOffsetsHeader, command.ext)
    topic = known_topic(node, header.topic)
    start = start_of(epochs_of(node), header.epoch)
    store = node.store
    queues = {*range(topic.read_queue_nums), *store.queues(header.topic)}
    offsets = {str(q): store.offset_at_place(header.topic, q, start) for q in sorted(queues)}
    return ok(EpochOffsets(offsets))


def epochs_of(node: BrokerContext) -> list[EpochEntryBody]:
    """Return the epochs of the broker's log; raises `Refused` 1 without controller mode."""
    if node.replica is None or not node.options.enable_controller_mode:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "this broker has no epochs: it is not in controller mode"
        )
    return node.replica.epochs()


def start_of(epochs: list[EpochEntryBody], epoch: int) -> int:
    """Return the log offset where `epoch` begins; raises `Refused` 29 if it has not begun."""
    for entry in epochs:
        if entry.epoch >= epoch:
            return entry.start_offset
    last = str(epochs[-1].epoch) if epochs else "none"
    raise Refused(
        ResponseCode.INVALID_PARAMETER,
        f"epoch {epoch} has not begun in this broker's log; the last one there is {last}",
    )


# Log bytes -----------------------------------------------------------------------------------


STEP_BYTES = 4 * 1024 * 1024
"""Bytes that are hashed in one step; the event loop runs between two steps."""
DAMAGED_MAX = 100
"""Limit of the damaged ranges in one answer."""


def handle_log_read(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer bytes of one log file from `fromOffset` on (LOG_READ 34006).

    The code is 19 at the confirmed end, 21 outside the log.
    """
    header = decode_header(LogReadHeader, command.ext)
    asked = limits.BULK_READ_BYTES if header.maxBytes is None else header.maxBytes
    size = max(1, min(asked, limits.BULK_READ_BYTES_MAX))
    check_unsent(session, size)
    pointers, at = node.store.pointers, header.fromOffset
    body = confirmed_bytes(node, at, size, unchecked=bool(header.unchecked))
    answer = LogReadResponseHeader(at + len(body), pointers.start, pointers.confirmed)
    if body:
        return Reply(header=answer, body=body)
    code = ResponseCode.PULL_OFFSET_MOVED
    if at == pointers.confirmed:
        code = ResponseCode.PULL_NOT_FOUND
    return Reply(code, f"no confirmed bytes at {at}", answer)


def confirmed_bytes(
    node: BrokerContext, offset: int, size: int, *, unchecked: bool = False
) -> memoryview:
    """Return up to `size` bytes from `offset`, of one log file; with `unchecked` damaged ones too.

    Confirmed bytes are never truncated by a failover. Raises `Refused` 1 if the device cannot read
    unchecked bytes.
    """
    store = node.store
    room = min(size, store.pointers.confirmed - offset)
    if room <= 0:
        return memoryview(b"")
    if not unchecked:
        return store.slice(offset, room)
    try:
        return memoryview(store.unchecked(offset, room))
    except DiskFailed as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None


class DigestRun:
    """One request for digests: hashes blocks step by step in the background, then answers."""

    def __init__(
        self, node: BrokerContext, command: Command, session: Session, blocks: list[tuple[int, int]]
    ) -> None:
        self._node = node
        self._command = command
        self._session = session
        self._left = blocks[::-1]
        first, last = (blocks[0], blocks[-1]) if blocks else ((0, 0), (0, 0))
        self._range = first[0], last[0] + last[1]
        """The log offsets `[start, end)` of all blocks."""
        self._rows: list[tuple[int, int, str]] = []
        self._header: LogDigestsResponseHeader | None = None

    def verify(self) -> None:
        """Check that the blocks are unchanged since they were written, then begin to hash them."""
        scrub = self._node.store.scrub
        looks = [scrub.examination(at, at + size) for at, size in self._left]

        def look() -> bool:
            for one in looks:
                if one is not None:
                    one.run()
            return True

        def done(ran: bool | None) -> None:
            if ran:
                reasons = [one.conclude() for one in looks if one is not None]
                sound = len(reasons) == len(looks) and not any(reasons)
                self._header = LogDigestsResponseHeader(sound)
            self.step()

        self._node.ports.background(look, done)

    def step(self) -> None:
        """Hash the next blocks; answer after the last, or where retention deleted the log."""
        if self._session.closed:
            self._node.digest_runs -= 1
            return
        work = self._next()
        if not work:
            self._answer()
            return

        def hashed() -> list[tuple[int, int, str]]:
            return [(offset, size, digest(parts)) for offset, size, parts in work]

        def done(rows: list[tuple[int, int, str]] | None) -> None:
            if rows is None:
                self._left.clear()  # the answer has the blocks that were hashed
            else:
                self._rows += rows
            self.step()

        self._node.ports.background(hashed, done)

    def _next(self) -> list[tuple[int, int, list[memoryview]]]:
        """Return the blocks of one step, with their bytes."""
        work: list[tuple[int, int, list[memoryview]]] = []
        total = 0
        while self._left and total < STEP_BYTES:
            offset, size = self._left.pop()
            parts = self._parts(offset, size)
            if parts is None:
                self._left.clear()
                break
            work.append((offset, size, parts))
            total += size
        return work

    def _parts(self, offset: int, size: int) -> list[memoryview] | None:
        parts: list[memoryview] = []
        while size:
            part = confirmed_bytes(self._node, offset, size)
            if not part:
                return None
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts

    def _answer(self) -> None:
        self._node.digest_runs -= 1
        damaged = self._node.store.damage.first_of(*self._range, DAMAGED_MAX)
        body = encode_body(digests_of(self._node, self._rows, damaged))
        self._session.answer(self._command, Reply(header=self._header, body=body))


def digests_of(
    node: BrokerContext, rows: list[tuple[int, int, str]], damaged: list[tuple[int, int]]
) -> LogDigests:
    """Return the answer's body: the digests, and the present bounds and epochs of the log."""
    pointers = node.store.pointers
    epochs = [
        EpochSpan(entry.epoch, entry.start_offset, min(entry.end_offset, pointers.appended))
        for entry in (epochs_of(node) if node.options.enable_controller_mode else [])
    ]
    return LogDigests(pointers.confirmed, pointers.start, epochs, rows, damaged)


def handle_log_digests(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer digests of the log's blocks between two offsets (LOG_DIGESTS 34005).

    The range ends at the confirmed offset, at the limit of one answer, and at the first byte that
    is known to be damaged; the answer contains the damaged ranges. Returns `HELD`; raises
    `Refused` 29 for a bad block size, 2 when too many such requests run.
    """
    header = decode_header(LogDigestsHeader, command.ext)
    size = limits.DIGEST_BLOCK_BYTES if header.blockBytes is None else header.blockBytes
    if not limits.DIGEST_BLOCK_BYTES_MIN <= size <= limits.DIGEST_BLOCK_BYTES_MAX:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"blockBytes {size} is not within {limits.DIGEST_BLOCK_BYTES_MIN}.."
            f"{limits.DIGEST_BLOCK_BYTES_MAX}",
        )
    if node.digest_runs >= limits.DIGEST_RUNS_MAX:
        raise Refused(
            ResponseCode.SYSTEM_BUSY,
            f"{limits.DIGEST_RUNS_MAX} requests for digests are being worked at; ask again later",
        )
    pointers = node.store.pointers
    start = max(header.fromOffset - header.fromOffset % size, pointers.start)
    end = pointers.confirmed if header.toOffset is None else header.toOffset
    most = BLOCK_BYTES if header.verify else limits.DIGEST_BYTES_MAX
    end = min(end, pointers.confirmed, start + most)
    node.digest_runs += 1
    run = DigestRun(node, command, session, list(blocks_of(start, end, size)))
    run.verify() if header.verify else run.step()
    return HELD


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.EPOCH_OFFSETS: handle_epoch_offsets,
    RequestCode.LOG_DIGESTS: handle_log_digests,
    RequestCode.LOG_READ: handle_log_read,
}
