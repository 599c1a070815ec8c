"""Options of slave acting master (RIP-32), under RocketMQ's names; none of them with controllers.

Defaults are RocketMQ's, and with them alone the mode does nothing useful: what is missing is said
at start (H12).
"""

from dataclasses import dataclass

from epochmq.base.options import option

_HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class ActingKeys:
    # A slave stands in for its master, without controllers.
    enable_slave_acting_master: bool = option(
        False, "The slave with the smallest id stands in while the group has no master (RIP-32)."
    )
    compatible_with_old_name_srv: bool = option(
        True, "Ask and tell name servers by requests that those of RocketMQ 4 know as well."
    )
    broker_not_active_timeout_millis: int = option(
        10_000,
        "With enableSlaveActingMaster: name servers forget this broker after so long a silence.",
        low=100,
        high=_HOUR_MS,
        unit="ms",
    )
    sync_broker_member_group_period: int = option(
        1000,
        "With enableSlaveActingMaster: how often name servers are asked who is in the group.",
        low=10,
        high=_HOUR_MS,
        unit="ms",
    )
    skip_pre_online: bool = option(
        False,
        "Be online at once: do not take over first what the group did while this broker was gone.",
    )
    sync_master_flush_offset_when_startup: bool = option(
        False, "A slave remembers where its master's log ended at the master's start; shown only."
    )
    total_replicas: int = option(
        1, "Members that the group is meant to have, the master among them.", low=1, high=64
    )


def acting_warnings(keys: ActingKeys, *, is_slave: bool, slave_read: bool) -> list[str]:
    """What makes the mode useless on this broker, a line each."""
    if not keys.enable_slave_acting_master:
        return []
    lines = []
    if keys.total_replicas == 1:
        lines.append(
            "enableSlaveActingMaster with totalReplicas=1: a master that returns delivers from its"
            " old progress, and takes back consumer offsets only, a moment later; set totalReplicas"
            " to the members of the group"
        )
    if is_slave and not slave_read:
        lines.append(
            "enableSlaveActingMaster with slaveReadEnable=false: nobody can read here while this"
            " broker stands in for its master; set slaveReadEnable=true"
        )
    return lines
