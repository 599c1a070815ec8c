"""Options of transactional messages, under RocketMQ's names."""

from dataclasses import dataclass

from epochmq.base.options import option

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class TransactionKeys:
    reject_transaction_message: bool = option(
        False, "Refuse messages that begin a transaction.", mutable=True
    )
    transaction_time_out: int = option(
        6000,
        "A producer is asked about a transaction that is silent for this long, unless the message"
        " says otherwise (CHECK_IMMUNITY_TIME_IN_SECONDS).",
        mutable=True,
        low=0,
        high=_DAY_MS,
        unit="ms",
    )
    transaction_check_interval: int = option(
        30_000,
        "How often silent transactions are looked for.",
        mutable=True,
        low=100,
        high=_DAY_MS,
        unit="ms",
    )
    transaction_check_max: int = option(
        15,
        "A transaction asked for so often is given up: its message stays in"
        " TRANS_CHECK_MAX_TIME_TOPIC.",
        mutable=True,
        low=0,
        high=1_000_000,
    )
    transaction_op_msg_max_size: int = option(
        4096,
        "Transactions that are over are named together, in op messages of at most this size.",
        mutable=True,
        low=64,
        high=1024 * 1024,
        unit="bytes",
    )
    transaction_op_batch_interval: int = option(
        3000,
        "How long one that is over waits for others to be named together with.",
        mutable=True,
        low=0,
        high=60_000,
        unit="ms",
    )
