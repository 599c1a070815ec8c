"""A world of controllers, and brokers with simulated logs, under faults.

Checks INV-01 to INV-09, INV-25 as lease safety, and INV-35 for the controllers' part.
"""

from random import Random

from epochmq.controller.options import ControllerOptions
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from sim.controller.cluster import CONTROLLER_KINDS, Cluster
from sim.controller.controllers import ControllerProcess
from sim.controller.inv_06 import OneMaster
from sim.controller.inv_07 import EpochsRise
from sim.controller.inv_08 import MasterInSet
from sim.controller.inv_09 import OneIdentity
from sim.controller.inv_25 import LeaseSafety
from sim.controller.light_broker import LightBroker
from sim.controller.member import CLUSTER, GROUP
from sim.kernel.checker import Checker
from sim.kernel.faults import Injector
from sim.kernel.host import Host
from sim.kernel.plan import Plan
from sim.kernel.rpc import Rpc, Session
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND
from sim.raft.inv_01 import OneLeader
from sim.raft.inv_02 import LogMatching
from sim.raft.inv_03 import LeaderCompleteness
from sim.raft.inv_04 import StateMachineSafety
from sim.raft.inv_05 import NeverBack

LIVENESS_US = 30 * SECOND


def controller_checkers() -> list[Checker]:
    return [
        OneLeader(),
        LogMatching(),
        LeaderCompleteness(),
        StateMachineSafety(),
        NeverBack(),
        OneMaster(),
        EpochsRise(),
        MasterInSet(),
        OneIdentity(),
        LeaseSafety(),
    ]


def controller_options(cluster: Cluster, sizes: Random) -> dict[str, int]:
    """What all controllers of a history have in common."""
    return {
        "lease_millis": cluster.lease_ms,
        "lease_skew_millis": cluster.skew_ms,
        "broker_timeout_millis": 3 * cluster.lease_ms,
        "first_election_window_millis": 300,
        "election_timeout_millis": cluster.election_ms,
        "raft_heartbeat_millis": cluster.election_ms // 5,
        "snapshot_entries": sizes.choice((10, 30, 1000)),
        "scan_not_active_broker_interval": 500,
        "scan_inactive_master_interval": 200,
    }


class Operator:
    """An operator who sometimes requests an election."""

    def __init__(self, cluster: Cluster, host: Host) -> None:
        self.cluster = cluster
        self.host = host
        self.rpc = Rpc(cluster.net, host)

    def wake(self, now: int) -> int | None:
        return None

    def state_line(self) -> str:
        return "operator"

    def request(self, command: Command, session: Session) -> None:
        """Nobody asks an operator."""

    def session_closed(self, session: Session) -> None: ...

    def elect(self, chance: Random) -> None:
        """electMaster for a drawn broker, at every controller."""
        fields = {
            "clusterName": CLUSTER,
            "brokerName": GROUP,
            "brokerId": str(chance.randint(1, len(self.cluster.broker_names))),
            "designateElect": "true",
        }
        for name in self.cluster.controller_names:
            command = request(RequestCode.CONTROLLER_ELECT_MASTER, fields)
            self.rpc.call(name, command, SECOND, lambda _c: None, lambda _l: None)


class ControllerHistory:
    """Some seconds of one group of brokers and its controllers."""

    window_ms = 300
    """How long the first election waits for brokers with data."""

    def __init__(self, plan: Plan) -> None:
        sizes = Random(f"{plan.seed}:sizes")
        self.cluster = cluster = Cluster(plan, sizes)
        self.world = cluster.world
        common = controller_options(cluster, sizes)
        common["first_election_window_millis"] = self.window_ms
        cluster.add_controllers(sizes.choice((1, 3, 3, 3, 5)), lambda h: self.boot(h, common))
        cluster.add_brokers(sizes.randint(1, 5), lambda h: LightBroker(cluster, h))
        self.admin = self.world.add_host("op", lambda h: Operator(cluster, h))
        self.safety_us = sizes.choice((3, 5, 7)) * SECOND
        self.injector: Injector = cluster.injector()
        self.faults = cluster.draw_faults(CONTROLLER_KINDS, self.safety_us)
        self.world.check_with(controller_checkers())

    def boot(self, host: Host, common: dict[str, int]) -> ControllerProcess:
        options = ControllerOptions(
            controller_d_leger_group="C",
            controller_d_leger_peers=self.cluster.peers,
            controller_d_leger_self_id=host.name,
            **common,  # type: ignore[arg-type]
        )
        return ControllerProcess(self.cluster, host, options)

    def schedule(self) -> list[str]:
        return [str(fault) for fault in self.faults]

    def play(self) -> None:
        world = self.world
        self.cluster.start_all()
        self.injector.schedule(self.faults)
        chance = world.streams["operator"]
        for _ in range(chance.choice((0, 0, 1, 3))):
            at = chance.randrange(SECOND, self.safety_us)
            world.at(at, "electMaster", lambda: self.ask(chance), self.admin)
        world.run_until(self.safety_us)
        self.injector.heal()
        if not world.run_until(world.time_us + LIVENESS_US, self.is_well):
            raise Violation("INV-35", "30 s after the heal the group is not whole")
        world.run_until(world.time_us + 300 * MS)
        world.finish()

    def ask(self, chance: Random) -> None:
        process = self.admin.process
        if isinstance(process, Operator):
            process.elect(chance)

    def is_well(self) -> bool:
        """Return whether there is one leader and one leased master, and all brokers are in sync."""
        hosts = self.world.hosts
        if self.world.touched is None or self.world.touched.name not in self.cluster.broker_names:
            return False
        brokers = [hosts[name].process for name in self.cluster.broker_names]
        leaders = [
            process
            for name in self.cluster.controller_names
            if isinstance(process := hosts[name].process, ControllerProcess)
            and process.node.core.context.leads
        ]
        if len(leaders) != 1 or not all(isinstance(b, LightBroker) for b in brokers):
            return False
        light = [b for b in brokers if isinstance(b, LightBroker)]
        masters = [b for b in light if b.may_acknowledge(b.host.now)]
        group = leaders[0].node.machine.groups.get((CLUSTER, GROUP))
        return (
            group is not None
            and len(masters) == 1
            and masters[0].membership.broker_id == group.master
            and len(group.members) == len(light)
            and all(b.epoch == group.epoch for b in light)
        )


def history(plan: Plan) -> ControllerHistory:
    return ControllerHistory(plan)
