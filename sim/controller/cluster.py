"""The hosts of one simulated group: controllers, brokers, addresses, timeouts and random sizes."""

from collections.abc import Callable
from functools import partial
from random import Random

from epochmq.base.errors import EnvironmentFault, PeerError
from epochmq.base.safeguards import Safeguards
from sim.kernel.clocks import HostClock
from sim.kernel.faults import Fault, Injector, Swarm
from sim.kernel.host import Host, Process
from sim.kernel.net import Net
from sim.kernel.plan import Plan
from sim.kernel.world import MS, SECOND, World

PORT = 9000
CONTROLLER_KINDS = {
    "kill": 4,
    "power": 3,
    "power_at_write": 4,
    "kill_group": 1,
    "power_group": 1,
    "pause": 3,
    "cut": 2,
    "cut_one_way": 2,
    "split": 3,
    "isolate": 3,
    "bridge": 2,
    "reset": 2,
    "slow_link": 2,
    "lossy": 1,
    "doubling": 1,
    "clock_step": 1,
    "slow_disk": 1,
}
DRIFT_PPM_MAX = 2000


class Cluster:
    """The hosts of one history; what runs on them is given by the history."""

    switch_errors = (EnvironmentFault, PeerError)
    """What a role switch may end with; anything else is a crash of ours."""

    def __init__(self, plan: Plan, sizes: Random) -> None:
        self.plan = plan
        self.safe: Safeguards = plan.safeguards
        self.world = World(plan.seed)
        self.net = Net(self.world)
        self.sizes = sizes
        self.controller_names: tuple[str, ...] = ()
        self.broker_names: tuple[str, ...] = ()
        self.misled: dict[tuple[str, str], str] = {}
        """(who dials, whom) -> whom it reaches: an address that changed hands."""
        self._spares: list[str] = []
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.learners: frozenset[str] = frozenset()
        """Brokers that copy and never vote or lead (asyncLearner)."""
        self.minimum = 1
        """minInSyncReplicas of all brokers."""
        self.lease_ms = sizes.choice((300, 500, 900))
        self.skew_ms = max(20, self.lease_ms // 20)
        self.election_ms = sizes.choice((150, 250, 400))
        beat_ms = sizes.choice((40, 60, 100))
        self.member_times: dict[str, int] = {
            "heartbeat_ms": beat_ms,
            "heartbeat_timeout_ms": sizes.choice((300, 600)),
            "dead_after_ms": 3 * self.lease_ms,
            "poll_ms": sizes.choice((500, 1500)),
            "metadata_ms": sizes.choice((500, 2000)),
            "call_timeout_ms": sizes.choice((400, 1000)),
        }

    # Hosts --------------------------------------------------------------------------------------

    def add_controllers(self, count: int, boot: Callable[[Host], Process]) -> None:
        self.controller_names = tuple(f"c{number}" for number in range(1, count + 1))
        for name in self.controller_names:
            self._add(name, boot)

    def add_brokers(self, count: int, boot: Callable[[Host], Process]) -> None:
        self.broker_names = tuple(f"b{number}" for number in range(1, count + 1))
        for name in self.broker_names:
            self._add(name, boot)

    def add_spare(self, name: str, boot: Callable[[Host], Process]) -> Host:
        """A machine that nobody counts on."""
        self._add(name, boot)
        self._spares.append(name)
        return self.world.hosts[name]

    def _add(self, name: str, boot: Callable[[Host], Process]) -> None:
        clocks = self.world.streams["clocks"]
        host = self.world.add_host(name, boot)
        host.clock = HostClock(
            clocks.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
            clocks.randint(-3_600_000, 3_600_000),
            clocks.randint(1, 1_000_000),
        )
        address = f"10.0.0.{len(self._names) + 1}:{PORT}"
        self._addresses[name], self._names[address] = address, name

    def address_of(self, name: str) -> str:
        return self._addresses[name]

    def host_at(self, address: str) -> str:
        return self._names[address]

    @property
    def voters(self) -> tuple[str, ...]:
        """Brokers that may be in the set."""
        return tuple(name for name in self.broker_names if name not in self.learners)

    @property
    def peers(self) -> str:
        """As `controllerDLegerPeers` names them."""
        return ";".join(f"{name}-{self.address_of(name)}" for name in self.controller_names)

    # Faults -------------------------------------------------------------------------------------

    def draw_faults(self, kinds: dict[str, int], end_us: int, count_max: int = 10) -> list[Fault]:
        hosts = (*self.controller_names, *self.broker_names)
        swarm = Swarm(
            kinds,
            hosts,
            300 * MS,
            end_us,
            count_max,
            3 * SECOND,
            (self.controller_names, self.broker_names),
        )
        drawn = swarm.draw(self.world.streams["faults"])
        keep = self.plan.keep
        return [fault for fault in drawn if keep is None or fault.number in keep]

    def injector(self) -> Injector:
        return Injector(self.world, self.net)

    def start_all(self) -> None:
        """Everything starts within some milliseconds, in a drawn order."""
        chance = self.world.streams["start"]
        for host in self.world.hosts.values():
            if host.name in self._spares:
                continue
            delay = chance.randrange(300 * MS)
            self.world.at(delay, f"start {host.name}", partial(self.world.start, host))
