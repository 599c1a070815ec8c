"""Records calm times of groups and faults of their brokers, which may explain a repeated message.

What a broker accepts (a commit, a delivery, an acknowledgement) is known only to it at first, until
its group was calm for long enough that the other brokers copied and saved it. Only a broker that
dies, is paused or is cut off before that may lose it.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from epochmq.broker.serving.roles import Role
from sim.kernel.host import Host
from sim.kernel.world import MS

if TYPE_CHECKING:
    from sim.acting.acting_broker import BrokerProcess
    from sim.acting.acting_world import ActingHistory

GRACE_US = 2_000 * MS
"""So long after a hindrance a call that began in it may still be waited for."""
ORDINARY = (Role.MASTER, Role.SLAVE)
FAR_US = 1 << 60


class Where(NamedTuple):
    """A way from one host to another, or a host and nobody."""

    one: str
    other: str


class Blow:
    """A fault of a broker, or its death, which has no duration."""

    def __init__(self, where: Where, begin_us: int, end_us: int = FAR_US) -> None:
        self.where = where
        self.begin_us = begin_us
        self.end_us = end_us

    @property
    def is_death(self) -> bool:
        return self.begin_us == self.end_us


class Calm:
    """Observes the network, the world and the roles of brokers."""

    def __init__(self, history: "ActingHistory") -> None:
        self.history = history
        self.world, self.net = history.world, history.net
        self._names = frozenset(name for name in self.world.hosts if name[0] == "n")
        self._members = {
            group: tuple(n for n in self.world.hosts if history.group_of(n) == group)
            for group in history.groups
        }
        self._absent = {name for names in self._members.values() for name in names}
        """Brokers that are neither master nor slave."""
        self._open: dict[Where, Blow] = {}
        self._blows: list[Blow] = []
        self._online_us: dict[str, int] = {}
        """When a broker came online last."""
        self._gave_up_us: dict[str, list[int]] = {name: [] for name in self._absent}
        """When a master that was not hit left its role, to learn what an acting master had done."""
        self._calm: dict[str, list[list[int]]] = {group: [] for group in history.groups}
        for owner, verbs in (
            (self.net, ("cut", "heal", "heal_all", "slow")),
            (self.world, ("pause", "resume", "start")),
            (history.injector, ("strike", "take_back", "heal")),
        ):
            for verb in verbs:
                _follow(owner, verb, self.look)
        self.world.on_down.append(self._down)

    # What happens ----------------------------------------------------------------------------

    def took_role(self, broker: "BrokerProcess", before: Role, role: Role) -> None:
        """Call it when a broker's role begins."""
        name = broker.host.name
        if role in ORDINARY:
            self._absent.discard(name)
        else:
            self._absent.add(name)
        if before is Role.MASTER and role is Role.PRE_ONLINE:
            self._gave_up_us[name].append(self.world.time_us)
        if before is Role.PRE_ONLINE:
            self._online_us[name] = self.world.time_us
        self._note(grace_us=0)

    def _down(self, host: Host, _power: bool) -> None:
        now = self.world.time_us
        self._blows.append(Blow(Where(host.name, ""), now, now))
        if any(host.name in members for members in self._members.values()):
            self._absent.add(host.name)
        self.look()

    def _found(self) -> Iterator[Where]:
        for way in self.net.troubled:
            yield Where(*way)
        for name, host in self.world.hosts.items():
            down = name in self._names and host.process is None
            if host.paused or host.slow > 1 or down:
                yield Where(name, "")

    def look(self) -> None:
        """Note which faults began and ended since the last look."""
        found, now = set(self._found()), self.world.time_us
        for where in sorted(found - self._open.keys()):
            self._open[where] = Blow(where, now)
            self._blows.append(self._open[where])
        over = self._open.keys() - found
        for where in over:
            self._open.pop(where).end_us = now
        self._note(GRACE_US if over else 0)

    def _note(self, grace_us: int) -> None:
        """Begin or end the calm of each group."""
        now = self.world.time_us
        for group, members in self._members.items():
            calm = self._calm[group]
            goes_on = bool(calm) and calm[-1][1] == FAR_US
            is_calm = not self._absent.intersection(members) and not any(
                self._is_near(where, group) for where in self._open
            )
            if is_calm and not goes_on:
                calm.append([now + grace_us, FAR_US])
            elif goes_on and not is_calm:
                calm[-1][1] = now

    def _is_near(self, where: Where, group: str) -> bool:
        """Whether it lies inside a group, or between it and name servers."""
        near = {*self._members[group], *self._names}
        return where.one in near and (not where.other or where.other in near)

    # What is asked ---------------------------------------------------------------------------

    def was_calm(self, group: str, since_us: int, until_us: int, span_us: int) -> bool:
        """Return whether the group was calm for `span_us` without a break within those times."""
        return any(
            min(end, until_us) - max(begin, since_us) >= span_us for begin, end in self._calm[group]
        )

    def blows(self, name: str, since_us: int, until_us: int) -> list[Blow]:
        """What hit a broker within those times, from inside its group or from name servers."""
        group = self.history.group_of(name)
        return [
            blow
            for blow in self._blows
            if blow.begin_us <= until_us
            and blow.end_us >= since_us
            and name in blow.where
            and self._is_near(blow.where, group)
        ]

    def anything(self, since_us: int, until_us: int) -> bool:
        """Whether anybody was hit, anywhere."""
        return any(b.begin_us <= until_us and b.end_us >= since_us for b in self._blows)

    def took_along(
        self, name: str, since_us: int, until_us: int, *, copied_us: int, saved_us: int
    ) -> bool:
        """Whether what the broker `name` took at `since_us` may be lost by `until_us`.

        It is copied within `copied_us` of calm, and on every disk after `saved_us` more.
        """
        group = self.history.group_of(name)

        def hits(member: str) -> list[int]:
            found = self.blows(member, since_us, until_us)
            return [max(blow.begin_us, since_us) for blow in found]

        if any(not self.was_calm(group, since_us, at_us, copied_us) for at_us in hits(name)):
            return True
        each = [hits(member) for member in self._members[group]]
        if not all(each):
            return False
        first = min(map(min, each))
        return not self.was_calm(group, since_us, first, copied_us + saved_us)

    def gave_up(self, name: str, since_us: int, until_us: int, copied_us: int) -> bool:
        """Whether the broker left the role of a master by itself within those times, before its
        group was calm for long enough to copy what it did at `since_us`: the acting master
        cannot know that.
        """
        group = self.history.group_of(name)
        return any(
            since_us <= at_us <= until_us and not self.was_calm(group, since_us, at_us, copied_us)
            for at_us in self._gave_up_us[name]
        )

    def was_away(self, name: str, at_us: int, span_us: int) -> bool:
        """Whether the broker was hindered before `at_us`, and its group has not been calm since,
        nor has it come back through it: there may be another who takes it for gone."""
        group, online_us = self.history.group_of(name), self._online_us.get(name, 0)
        return any(
            not blow.is_death
            and blow.end_us >= online_us
            and not self.was_calm(group, blow.end_us, at_us, span_us)
            for blow in self.blows(name, 0, at_us)
        )

    def is_stale(self, name: str, since_us: int) -> bool:
        """Whether the broker went on with what it knew before, though it was away since then: it
        did not come back through its group (ADR 0050)."""
        hit = self.blows(name, since_us, self.world.time_us)
        return self._online_us.get(name, 0) <= since_us and any(not b.is_death for b in hit)


def _follow(owner: Any, verb: str, then: Callable[[], None]) -> None:
    """Each call of `verb` is followed by `then`."""
    plain = getattr(owner, verb)

    def call(*args: Any, **named: Any) -> Any:
        result = plain(*args, **named)
        then()
        return result

    setattr(owner, verb, call)
