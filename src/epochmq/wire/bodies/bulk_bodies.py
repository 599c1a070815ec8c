"""Bodies of our own requests for data pipelines: 34004, 34005."""

from epochmq.wire.bodies.body import Body


class EpochOffsets(Body):
    """Answer to EPOCH_OFFSETS 34004: by queue id the first queue offset at or behind the epoch's
    start."""

    offsets: dict[str, int] = {}


class EpochSpan(Body):
    """Bytes `[start, end)` of the log were written by the master of `epoch`."""

    epoch: int
    start: int
    end: int


class LogDigests(Body):
    """Answer to LOG_DIGESTS 34005: a block is (log offset, bytes, BLAKE2b-128 in hexadecimal)."""

    confirmed: int = 0
    start: int = 0
    epochs: list[EpochSpan] = []
    blocks: list[tuple[int, int, str]] = []
