"""Headers of the replication helpers: 906, 908 (facts/remoting.md 2.7)."""

from epochmq.wire.headers.base import I64, Header


class ExchangeHAInfoHeader(Header):
    """EXCHANGE_BROKER_HA_INFO 906, request and answer. Without `masterHaAddress` it only asks."""

    masterHaAddress: str | None = None
    masterFlushOffset: I64 | None = None
    masterAddress: str | None = None


class ResetMasterFlushOffsetHeader(Header):
    """RESET_MASTER_FLUSH_OFFSET 908."""

    masterFlushOffset: I64
