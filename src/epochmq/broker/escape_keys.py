"""Options of escaping to other groups (RIP-32), under RocketMQ's names."""

from dataclasses import dataclass

from epochmq.base.options import option


@dataclass(frozen=True, kw_only=True)
class EscapeKeys:
    # What a slave that stands in for its master moves on.
    enable_remote_escape: bool = option(
        False,
        "A slave that stands in hands delayed, timed, transactional and popped messages over to"
        " masters of other groups of its cluster.",
    )
