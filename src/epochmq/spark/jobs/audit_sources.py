"""Reads replicas for an audit: from live brokers, or from files of a store."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.errors import NotFound, NotReachable, Refused, StoreDamaged, UsageError
from epochmq.client.aio.admin_client import Admin
from epochmq.model.log_blocks import blocks_of, digest
from epochmq.model.names import check_group
from epochmq.runtime.tls import OutgoingTls, client_tls
from epochmq.spark.connection_options import credentials_in
from epochmq.spark.jobs.audit_core import DAMAGED, DigestBlock, Epoch, Shape
from epochmq.spark.log_files import LogFile, StoreDirectory
from epochmq.spark.spark_loop_thread import LoopThread
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.offset_bodies import LogDigests
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.pull_headers import LogDigestsHeader, LogReadHeader

# Audit live ----------------------------------------------------------------------------------
# Running replicas: each computes the digests of its own log (LOG_DIGESTS); we read what differs.
#
# A replica answers up to the confirmed offset that it knows, so its later bytes are not checked.
# One whose confirmed offset is far below the others' lags or was truncated.


TIMEOUT_MS = 30_000
CONFIRM_WAIT_MS = 5_000
"""How long (ms) a follower may take to learn an offset that another replica reports as
confirmed.
"""
_LOOK_S = 0.1


class LiveReplica:
    """One broker at `address`."""

    def __init__(self, name: str, address: str, admin: Admin, loop: LoopThread) -> None:
        self._name = name
        self._address = address
        self._admin = admin
        self._loop = loop
        self.shape = self.look()

    def look(self) -> Shape:
        """Return the broker's current log range, confirmed offset and epochs."""
        said = self._digests(0, 0, limits.DIGEST_BLOCK_BYTES)
        epochs = tuple(Epoch(each.epoch, each.start) for each in said.epochs)
        return Shape(self._name, said.start, said.confirmed, said.confirmed, epochs)

    def read(self, low: int, high: int) -> bytes:
        """Return the bytes of `[low, high)` as far as they are confirmed."""
        low, parts = max(low, self.shape.start), []
        while low < high:
            size = min(high - low, limits.BULK_READ_BYTES_MAX)
            answer = self._call(
                request(RequestCode.LOG_READ, LogReadHeader(fromOffset=low, maxBytes=size))
            )
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                break
            parts.append(bytes(answer.body[: high - low]))
            low += len(parts[-1])
        return b"".join(parts)

    def digests(self, low: int, high: int, block_bytes: int) -> list[DigestBlock]:
        """Return digests of the first blocks of `[low, high)`; the broker decides how many.

        The digest of a block that the broker knows as damaged is `DAMAGED`.
        """
        at, size = next(blocks_of(low, high, block_bytes))
        if low % block_bytes:  # a broker begins at a multiple
            text = self.read(at, at + size)
            if len(text) == size:
                return [DigestBlock(at, size, digest([text]))]
        found = self._digests(low, high, block_bytes)
        if any(start < at + size and at < end for start, end in found.damaged):
            return [DigestBlock(at, size, DAMAGED)]
        return [] if low % block_bytes else [DigestBlock(*block) for block in found.blocks]

    def _digests(self, low: int, high: int, block_bytes: int) -> LogDigests:
        header = LogDigestsHeader(fromOffset=low, toOffset=high, blockBytes=block_bytes)
        deadline = time.monotonic() + TIMEOUT_MS / 1_000
        while True:
            answer = self._call(request(RequestCode.LOG_DIGESTS, header))
            # A broker computes digests for a few requests at one time only.
            if answer.code != ResponseCode.SYSTEM_BUSY or time.monotonic() > deadline:
                break
            time.sleep(_LOOK_S)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise UsageError(
                f"the broker at {self._address} computes no digests (it is not EpochMQ's, or an"
                " older one): stop it, or copy its store, and use --store"
            )
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, f"{self._address}: {answer.remark}")
        return decode_body(LogDigests, answer.body)

    def _call(self, command: Command) -> Command:
        work = self._admin.instance.call(self._address, command, TIMEOUT_MS)
        return self._loop.run(work)


@contextmanager
def live_replicas(
    name_server: str, broker_name: str, tls: OutgoingTls | None = None
) -> Iterator[list[LiveReplica]]:
    """Yield all replicas of the broker group that the name server knows, at least two."""
    try:
        check_group(broker_name)
    except Refused:
        raise UsageError(f"'{broker_name}' is not a name of a broker group") from None
    context = client_tls(tls or OutgoingTls())
    admin = Admin(name_server, tls=context, credentials=credentials_in(tls))
    loop = LoopThread("epochmq-audit")
    try:
        groups = loop.run(admin.broker_groups())
        if broker_name not in groups:
            known = ", ".join(groups) or "none"
            raise NotFound(f"there is no broker group {broker_name}; known are: {known}")
        addresses = groups[broker_name].broker_addrs
        if len(addresses) < 2:
            raise NotReachable(
                f"of broker group {broker_name} only {', '.join(addresses.values()) or 'nobody'}"
                " is registered; an audit compares two replicas or more"
            )
        replicas = [
            LiveReplica(f"{'master' if number == 0 else number}@{address}", address, admin, loop)
            for number, address in sorted(addresses.items())
        ]
        wait_for_confirmed(replicas)
        yield replicas
    finally:
        loop.run(admin.close())
        loop.close()


def wait_for_confirmed(replicas: Sequence[LiveReplica], wait_ms: int = CONFIRM_WAIT_MS) -> None:
    """Wait until all replicas know the highest confirmed offset, up to `wait_ms`."""
    confirmed = max(replica.shape.confirmed for replica in replicas)
    deadline = time.monotonic() + wait_ms / 1_000
    while time.monotonic() < deadline:
        late = [replica for replica in replicas if replica.shape.confirmed < confirmed]
        if not late:
            break
        time.sleep(_LOOK_S)
        for replica in late:
            replica.shape = replica.look()
    for replica in replicas:
        at = min(replica.shape.confirmed, confirmed)
        replica.shape = replace(replica.shape, end=at, confirmed=at)


# Audit files ---------------------------------------------------------------------------------
# A replica's directory: the store of a stopped broker, or a copy of one. Only reads.


class AuditedLogFile(NamedTuple):
    """One log file with log bytes `[start, start + size)`."""

    start: int
    size: int
    path: str


class StoreReplica:
    """A replica in a directory; `shape` describes its log.

    Bytes after a damaged record count as present, and so does a torn tail: both are compared, and
    not mistaken for a truncated log.
    """

    def __init__(self, name: str, directory: str) -> None:
        store = self._store = StoreDirectory(directory, name)
        if not store.files:
            raise NotFound(f"{directory} holds no commit log file (20 digits); nothing to compare")
        for gap in store.gaps():
            raise StoreDamaged(
                f"{directory}: no file holds log bytes {gap.start} to {gap.end}; restore the"
                " missing file before the comparison"
            )
        tail = store.tail
        end = max(store.end, tail.end) if tail is not None else store.end
        epochs = tuple(Epoch(epoch, start) for epoch, start, _ in store.epochs)
        self.pieces = [AuditedLogFile(file.start, file.size, file.path) for file in store.files]
        self.shape = Shape(name, store.start, end, store.confirmed or 0, epochs)

    def read(self, low: int, high: int) -> bytes:
        """Return the bytes of `[low, high)` as far as the replica has them."""
        low, high = max(low, self.shape.start), min(high, self.shape.end)
        return bytes(self._store.raw(low, high)) if low < high else b""

    def digests(self, low: int, high: int, block_bytes: int) -> list[DigestBlock]:
        """Return digests of all blocks of `[low, high)`, which the replica must have."""
        return digests_of(self.pieces, low, high, block_bytes)


def digests_of(
    pieces: Sequence[AuditedLogFile], low: int, high: int, block_bytes: int
) -> list[DigestBlock]:
    """Return the digest of each block, over the files that contain it."""
    views = [
        (each, memoryview(LogFile(each.path, each.start, each.size, each.size).open()))
        for each in pieces
        if each.start < high and low < each.start + each.size
    ]
    found = []
    for offset, size in blocks_of(low, high, block_bytes):
        parts = []
        for each, view in views:
            begin, end = max(offset, each.start), min(offset + size, each.start + each.size)
            if begin < end:
                parts.append(view[begin - each.start : end - each.start])
        found.append(DigestBlock(offset, size, digest(parts)))
    return found
