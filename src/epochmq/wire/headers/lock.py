"""Headers of queue locks: LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42 (facts/remoting.md 2.5)."""

from epochmq.wire.headers.base import RpcHeader


class LockBatchHeader(RpcHeader):
    """Nothing of its own; the body is LockBatchRequest."""


class UnlockBatchHeader(RpcHeader):
    """Nothing of its own; the body is LockBatchRequest."""
