"""Headers of the replication helpers: 906, 908."""

from epochmq.wire.headers.header import I64, Header


class ExchangeHAInfoHeader(Header):
    """EXCHANGE_BROKER_HA_INFO 906, request and answer. Without `masterHaAddress` it only asks.

    `handOver` is ours: a master that says false only announces itself, and whoever stands in for it
    goes on; else that one steps down before it answers.
    """

    masterHaAddress: str | None = None
    masterFlushOffset: I64 | None = None
    masterAddress: str | None = None
    handOver: bool | None = None


class ExchangeHAInfoAnswer(Header):
    """What ours answer to a master: that nobody stands in for it here any more.

    `stoodIn`: it only asked, and somebody does, or did and the master took nothing back since.
    `standsIn`: it only asked, and somebody does at this moment.
    """

    masterFlushOffset: I64 | None = None
    steppedDown: bool | None = None
    stoodIn: bool | None = None
    standsIn: bool | None = None


class ResetMasterFlushOffsetHeader(Header):
    """RESET_MASTER_FLUSH_OFFSET 908."""

    masterFlushOffset: I64
