"""Headers of queue locks: LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""

from epochmq.wire.headers.header import I32, I64, RpcHeader


class LockBatchHeader(RpcHeader):
    """The body is LockBatchRequest. The fields are EpochMQ's own, between members of a group; an
    answer that has them repeats them."""

    lockAsker: str | None = None
    """Who asks for a vote; without it the request is a client's, or a Java member's."""
    lockNumber: I64 | None = None
    """Rises with each of that one's requests."""
    totalReplicas: I32 | None = None


class UnlockBatchHeader(RpcHeader):
    """The body is LockBatchRequest; fields as above."""

    lockAsker: str | None = None
    lockNumber: I64 | None = None
    lockUndo: bool | None = None
    """Only what that very request did is undone."""
