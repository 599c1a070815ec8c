"""Write leases of masters: when one may be given, and until when one may still be held.

A lease is given in the answer to a heartbeat and counts, at the master, from before that heartbeat
was sent; here it counts from the answer, which is later, plus a margin for clocks that run at
different rates. No lease is written anywhere: a new leader takes it that every master was given one
just before it began to lead, and an old one gives none unless it is sure to lead still.
"""

from epochmq.controller.controller_state import BrokerGroup
from epochmq.controller.liveness import LiveProcess


def may_hold(group: BrokerGroup, live: LiveProcess, epoch: int | None) -> bool:
    """Whether this broker is the master, in the epoch it says it is in, and still the process that
    was made master.
    """
    replica = group.master_replica()
    return (
        replica is not None
        and replica.id == live.id
        and live.session in ("", replica.session)
        and group.elected
        and epoch == group.epoch
        and live.leased
        and not live.resigned
    )


def held_until(live: LiveProcess | None, leader_since: int, presumed_ms: int, skew_ms: int) -> int:
    """Before this time the master may believe that it holds a lease; 0 when it cannot."""
    if live is not None and (live.gone or live.resigned or not live.leased):
        return 0
    until = leader_since + presumed_ms
    if live is not None:
        until = max(until, live.lease_until)
    return until + skew_ms


def dead_at(
    group: BrokerGroup,
    live: LiveProcess | None,
    leader_since: int,
    held_until_ms: int,
    times: "Times",
) -> int:
    """When the recorded master counts as dead and another may be elected; 0: it is no more.

    Never before its lease has ended, unless it is known that nobody is there to hold it.
    """
    if group.master is None or (live is not None and (live.gone or live.resigned)):
        return 0
    if live is None:
        return max(leader_since + times.timeout_ms, held_until_ms)
    return max(live.silent_at(leader_since, times.lease_ms), held_until_ms)


class Times:
    """The durations a controller works with, in ms."""

    __slots__ = ("lease_ms", "skew_ms", "timeout_ms")

    def __init__(self, lease_ms: int, skew_ms: int, timeout_ms: int) -> None:
        self.lease_ms = lease_ms
        self.skew_ms = skew_ms
        self.timeout_ms = timeout_ms
