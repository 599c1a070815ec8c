"""Logs of whole records in memory and in directories, for tests of the audit."""

import hashlib
import random
from dataclasses import dataclass, field
from pathlib import Path

from epochmq.model import record
from epochmq.model.log_blocks import blocks_of
from epochmq.spark.jobs.audit_core import DigestBlock, Epoch, Shape
from epochmq.store.checkpoint import _FIELDS
from epochmq.store.epochs import _format

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
FILE_BYTES = 1 << 16


@dataclass
class Log:
    """Records from offset `start` on; `starts` are their offsets, fillers left out."""

    start: int = 0
    data: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def record_at(self, offset: int) -> int | None:
        """The record that holds byte `offset`; None in a filler."""
        held = [at for at in self.starts if at <= offset]
        if not held:
            return None
        size = int.from_bytes(self.data[held[-1] - self.start :][:4], "big")
        return held[-1] if offset < held[-1] + size else None


def make_log(count: int, seed: int = 1, start: int = 0, body_max: int = 900) -> Log:
    """`count` records in files of FILE_BYTES, each file but the last ended by a filler."""
    rng = random.Random(seed)
    log = Log(start)
    for number in range(count):
        body = rng.randbytes(rng.randrange(1, body_max))
        properties = f"UNIQ_KEY\x01ID{number:06d}\x02TAGS\x01t{number % 3}\x02".encode()
        size = record.size_of(6, len(body), len(properties))
        left = FILE_BYTES - log.end % FILE_BYTES
        if size + record.TRAILING_BLANK_BYTES > left:
            log.data += record.blank(left) + bytes(left - 8)
        log.starts.append(log.end)
        log.data += record.encode(
            b"orders",
            body,
            properties,
            number % 4,
            0,
            number // 4,
            log.end,
            0,
            1_700_000_000_000 + number,
            HOST,
            1_700_000_000_100 + number,
            HOST,
            0,
            0,
        )
    return log


@dataclass
class Held:
    """A replica in memory."""

    shape: Shape
    start: int
    data: bytes

    def read(self, low: int, high: int) -> bytes:
        return self.data[max(low - self.start, 0) : max(high - self.start, 0)]

    def digests(self, low: int, high: int, block_bytes: int) -> list[DigestBlock]:
        return [
            DigestBlock(
                at, size, hashlib.blake2b(self.read(at, at + size), digest_size=16).hexdigest()
            )
            for at, size in blocks_of(low, high, block_bytes)
        ][:3]


def held(
    name: str,
    log: Log,
    *,
    confirmed: int,
    end: int | None = None,
    epochs: tuple[Epoch, ...] = (),
    flips: tuple[int, ...] = (),
) -> Held:
    """A replica of `log` that ends at `end` and has one bit turned at each of `flips`."""
    data = bytearray(log.data[: (log.end if end is None else end) - log.start])
    for at in flips:
        data[at - log.start] ^= 1
    shape = Shape(name, log.start, log.start + len(data), confirmed, epochs)
    return Held(shape, log.start, bytes(data))


def write_store(
    root: Path,
    log: Log,
    *,
    confirmed: int = 0,
    epochs: tuple[Epoch, ...] = (),
    end: int | None = None,
    flips: tuple[int, ...] = (),
) -> Path:
    """The same as the directory of a stopped broker."""
    data = held("any", log, confirmed=confirmed, end=end, flips=flips).data
    folder = root / "commitlog"
    folder.mkdir(parents=True)
    for at in range(0, len(data) or 1, FILE_BYTES):
        path = folder / f"{log.start + at:020d}"
        path.write_bytes(data[at : at + FILE_BYTES].ljust(FILE_BYTES, b"\0"))
    (root / "checkpoint").write_bytes(_FIELDS.pack(0, 0, 0, 0, confirmed).ljust(4096, b"\0"))
    if epochs:
        (root / "epochFileCheckpoint").write_bytes(_format(epochs))
    return root
