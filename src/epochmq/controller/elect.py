"""Election of a master: a choice among the living replicas by a total order.

Order: higher epoch, then the longer log, then the lower priority number (RocketMQ's
`brokerElectionPriority`), then the lower id. All numbers are compared as full integers
(rocketmq#10578, S18).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.controller.controller_state import BrokerGroup

PRIORITY_UNSET = 2**31 - 1


class LogReport(NamedTuple):
    """A broker's log according to its last heartbeat; -1 if it reported nothing yet."""

    epoch: int = -1
    offset: int = -1
    priority: int = PRIORITY_UNSET

    @property
    def has_data(self) -> bool:
        """Whether the log is not empty."""
        return self.epoch > 0 or self.offset > 0


class By(NamedTuple):
    """Limits of an election: `wanted` is the only acceptable replica, `unclean` allows a loss."""

    wanted: int | None = None
    unclean: bool = False


ANYONE = By()


@dataclass(frozen=True, slots=True)
class ElectedMaster:
    """The new master and its sync-state set; `unclean` if messages may be lost."""

    master: int
    members: tuple[int, ...]
    unclean: bool = False


Live = Mapping[int, LogReport]
"""The reports of the living replicas, by id."""


def rank(broker_id: int, report: LogReport) -> tuple[int, int, int, int]:
    """Return the sort key of a replica; the smallest is the best."""
    return -report.epoch, -report.offset, report.priority, broker_id


def best(ids: Iterable[int], live: Live) -> int | None:
    """Return the best living replica of `ids`, or None."""
    alive = [number for number in ids if number in live]
    return min(alive, key=lambda number: rank(number, live[number]), default=None)


def elect(
    group: BrokerGroup,
    live: Live,
    by: By = ANYONE,
    *,
    leaving: Collection[int] = (),
    safe: Safeguards = SAFE,
) -> ElectedMaster | None:
    """Return the new master of `group`, or None if no living replica may be master.

    Members of the set come first, then candidates. If all members are back and all are unclean, and
    there are no candidates, the best of all replicas is chosen. With `by.unclean`, finally any
    replica. A learner is never chosen. In a group that never had a master, any other replica may be
    chosen.

    Args:
        group: the group.
        live: reports of the living replicas.
        by: limits of the election.
        leaving: replicas that live and stay in the set, and must not be chosen.
        safe: switches of the simulator.
    """
    able = [number for number, replica in group.replicas.items() if not replica.learner]
    if not group.elected:
        return _alone(_wanted(able, by), live, unclean=False)
    clean = [n for n in able if not (safe.unclean_not_eligible and group.replicas[n].unclean)]
    for electorate in (group.members, group.candidates):
        master = best(_wanted([n for n in electorate if n in clean], by), live)
        if master is not None:
            return ElectedMaster(master, _stay(group, clean, {*live, *leaving}, master))
    if by.unclean or _all_unclean(group, live):
        return _alone(_wanted(able, by), live, unclean=True)
    return None


def _wanted(ids: list[int], by: By) -> list[int]:
    return ids if by.wanted is None else [number for number in ids if number == by.wanted]


def _alone(ids: list[int], live: Live, *, unclean: bool) -> ElectedMaster | None:
    master = best(ids, live)
    return None if master is None else ElectedMaster(master, (master,), unclean)


def _stay(
    group: BrokerGroup, clean: list[int], live: Collection[int], master: int
) -> tuple[int, ...]:
    """Return the members that stay in the set: the living ones, whose data still counts (KIP-966).

    A master of 5.0 always begins with itself as the only member.
    """
    if group.by_address:
        return (master,)
    stay = {number for number in group.members if number in clean and number in live}
    return tuple(sorted(stay | {master}))


def _all_unclean(group: BrokerGroup, live: Live) -> bool:
    """Whether all members lost unsynced data, are back, and reported their logs.

    Then waiting longer does not help, unless a candidate outside the set still holds everything
    (S10).
    """
    return not group.candidates and all(
        number in live
        and live[number] != LogReport()
        and number in group.replicas
        and group.replicas[number].unclean
        for number in group.members
    )
