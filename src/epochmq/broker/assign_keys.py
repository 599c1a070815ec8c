"""Options of shares told by the broker."""

from dataclasses import dataclass

from epochmq.base.options import option


@dataclass(frozen=True, kw_only=True)
class AssignKeys:
    server_load_balancer_enable: bool = option(
        True, "Share queues out when a client asks; off gives each client all.", mutable=True
    )
    default_message_request_mode: str = option(
        "PULL",
        "How a group reads a topic unless `setConsumeMode` says it.",
        choices=("PULL", "POP"),
    )
    default_pop_share_queue_num: int = option(
        -1,
        "With POP: own queues and those of so many next members; 0 and less is all.",
        mutable=True,
        low=-1,
        high=1_000_000,
    )
    load_balance_poll_name_server_interval: int = option(
        30_000, "How often routes for shares are asked for.", low=1_000, high=3_600_000, unit="ms"
    )
