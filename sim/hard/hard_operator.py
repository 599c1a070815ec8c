"""A simulated operator of a group without controllers whose logs diverged (ADR 0050).

No log is truncated automatically, and a master with a new disk must not be started together with a
slave that has the log. The operator follows the broker's log message: where a replica has the whole
log of the master and more, the two exchange roles and the master's store is moved away; otherwise
the replica's store is.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sim.acting.acting_broker import BrokerProcess
from sim.acting.inv_32 import Log, whole_log
from sim.kernel.disk import SimDisk
from sim.kernel.world import MS

if TYPE_CHECKING:
    from sim.hard.hard_world import HardHistory

LOOK_US = 500 * MS


class Operator:
    """Looks twice a second; acts when every broker of a group is up."""

    def __init__(self, history: "HardHistory") -> None:
        self.history = history
        self.world = history.world
        self.world.after(LOOK_US, "operator", self.look)

    def look(self) -> None:
        self.world.after(LOOK_US, "operator", self.look)
        for group in self.history.groups:
            names = [name for name in self.world.hosts if self.history.group_of(name) == group]
            master, slaves = names[0], names[1:]
            living = {broker.host.name: broker for broker in self.history.brokers(group)}
            if not all(name in living and living[name].ready for name in slaves):
                continue
            if master in self.world.wiped:
                self.exchange(master, {name: whole_log(living[name]) for name in slaves})
            elif master in living and living[master].ready:
                if any(map(does_not_fit, living.values())):
                    self.choose(master, {n: whole_log(broker) for n, broker in living.items()})
                elif is_whole(living[master], living.values()):
                    self.world.short.discard(group)

    def choose(self, master: str, logs: dict[str, Log]) -> None:
        """Which store goes."""
        own = logs.pop(master)
        longer = {name: log for name, log in logs.items() if log.end > own.end and own.fits(log)}
        if longer:
            self.exchange(master, longer)
            return
        for name, log in logs.items():
            if log.end > own.end or not own.fits(log):
                self.world.mark("covered.replaced_a_replica")
                self.world.kill(self.world.hosts[name])
                self.renew(name)

    def exchange(self, master: str, logs: dict[str, Log]) -> None:
        """The slave with the longest log is the master now, the other store is moved away."""
        self.world.mark("covered.exchanged")
        slave = max(sorted(logs), key=lambda name: logs[name].end)
        hosts = self.world.hosts
        for name in (master, slave):
            self.world.kill(hosts[name])
        hosts[master].disk = hosts[slave].disk
        self.world.wiped.discard(master)
        self.world.start(hosts[master])
        self.renew(slave)

    def renew(self, name: str) -> None:
        """Start a broker with an empty store."""
        host = self.world.hosts[name]
        self.world.short.add(self.history.group_of(name))
        host.disk = SimDisk()
        self.world.tell("emptied", name)
        self.world.start(host)


def is_whole(master: BrokerProcess, members: Iterable[BrokerProcess]) -> bool:
    """Whether each has all of the master's log."""
    end = master.node.store.pointers.appended
    return all(broker.node.store.pointers.appended == end for broker in members)


def does_not_fit(broker: BrokerProcess) -> bool:
    """Whether it says so."""
    back = broker.member.pre_online
    return bool(broker.member.log_watch.trouble) or (back is not None and back.core.is_diverged)
