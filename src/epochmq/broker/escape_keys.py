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


def escape_warnings(keys: EscapeKeys, *, stands_in: bool) -> list[str]:
    """What makes standing in useless on this broker, a line each (H12)."""
    if not stands_in or keys.enable_remote_escape:
        return []
    return [
        "enableSlaveActingMaster with enableRemoteEscape=false: while this broker stands in for its"
        " master, delayed, timed and transactional messages wait and pops are refused, unless"
        " another master is in the same process; set enableRemoteEscape=true"
    ]
