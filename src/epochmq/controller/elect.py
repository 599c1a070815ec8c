"""Who becomes master: a pure choice among the replicas that live, by a total order.

Order: higher epoch, then the longer log, then the lower priority number (RocketMQ's
`brokerElectionPriority`), then the lower id, all on full integers (rocketmq#10578, S18).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.controller.controller_state import BrokerGroup

PRIORITY_UNSET = 2**31 - 1


class LogReport(NamedTuple):
    """A broker's log as its last heartbeat told it; -1 when it told nothing yet."""

    epoch: int = -1
    offset: int = -1
    priority: int = PRIORITY_UNSET

    @property
    def has_data(self) -> bool:
        return self.epoch > 0 or self.offset > 0


class By(NamedTuple):
    """How far an election may go: `wanted` names the only acceptable one."""

    wanted: int | None = None
    unclean: bool = False


ANYONE = By()


@dataclass(frozen=True, slots=True)
class ElectedMaster:
    """The new master and its set; `unclean` when messages may be lost by it."""

    master: int
    members: tuple[int, ...]
    unclean: bool = False


Live = Mapping[int, LogReport]
"""Reports of the replicas that are alive, by id."""


def rank(broker_id: int, report: LogReport) -> tuple[int, int, int, int]:
    """The smaller, the better."""
    return -report.epoch, -report.offset, report.priority, broker_id


def best(ids: Iterable[int], live: Live) -> int | None:
    """The best of `ids` among those alive."""
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
    """The choice for `group`, or None: nobody who may be master is alive.

    Members of the set first, then candidates, then, when every member is back and none is clean,
    whoever has most; with consent to unclean elections at last anybody. Never a learner. For a
    group that was never elected all count alike. `leaving` are replicas that live and stay in the
    set, but shall not be chosen.
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
    """Members that live stay in the set: what they hold still counts (KIP-966).

    Masters of 5.0 begin with a set of one, whatever they are told.
    """
    if group.by_address:
        return (master,)
    stay = {number for number in group.members if number in clean and number in live}
    return tuple(sorted(stay | {master}))


def _all_unclean(group: BrokerGroup, live: Live) -> bool:
    """All of the set lost what was not synced, are back and told of their logs: waiting longer
    brings nothing more.

    Unless somebody who left a set that could not acknowledge still holds everything (S10).
    """
    return not group.candidates and all(
        number in live
        and live[number] != LogReport()
        and number in group.replicas
        and group.replicas[number].unclean
        for number in group.members
    )
