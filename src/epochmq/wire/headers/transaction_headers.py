"""Headers of transactions: 37, 39, 323."""

from epochmq.wire.headers.header import I32, I64, Header, RpcHeader

UNKNOWN = 0
COMMIT = 8
ROLLBACK = 12
"""Values of `commitOrRollback`: the transaction bits of sys_flag."""


class EndTransactionHeader(RpcHeader):
    """END_TRANSACTION 37, one-way from Java.

    `tranStateTableOffset` is the half message's queue offset, `commitLogOffset` its byte position.
    """

    producerGroup: str
    tranStateTableOffset: I64
    commitLogOffset: I64
    commitOrRollback: I32
    msgId: str
    fromTransactionCheck: bool = False
    transactionId: str | None = None
    topic: str | None = None


class CheckTransactionStateHeader(RpcHeader):
    """CHECK_TRANSACTION_STATE 39 (broker to producer, one-way); the body is one stored message."""

    tranStateTableOffset: I64
    commitLogOffset: I64
    msgId: str | None = None
    transactionId: str | None = None
    offsetMsgId: str | None = None
    topic: str | None = None


class ResumeCheckHalfHeader(Header):
    """RESUME_CHECK_HALF_MESSAGE 323: check a given-up half message again."""

    msgId: str | None = None
    topic: str | None = None
