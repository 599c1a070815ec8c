"""Options of queue locks, under RocketMQ's names."""

from dataclasses import dataclass

from epochmq.base.options import option


@dataclass(frozen=True, kw_only=True)
class LockKeys:
    lock_in_strict_mode: bool = option(
        False,
        "true: order before availability. An ordered consumer gets a queue only by the votes of"
        " more than half of totalReplicas, so two never have it at one time, and with two replicas"
        " both must live. false: the broker that is asked decides alone, so ordered consumption"
        " goes on with any replica, and around a change of master two may have one queue.",
    )


def lock_problems(*, strict: bool, replicas: int, acting: bool) -> list[str]:
    """What is wrong with the values taken together."""
    if strict and replicas > 1 and not acting:
        return [
            "option 'lockInStrictMode' with totalReplicas > 1 needs enableSlaveActingMaster: the"
            " members to be asked are known by it"
        ]
    return []
