"""Controllers on simulated disks and one virtual clock, and brokers that are plain values."""

from typing import Any

from sim.controller.controllers import found_group
from sim.kernel.disk import SimDisk

from epochmq.controller.controller_effects import Dial, Notify, SendReply
from epochmq.controller.controller_state import BrokerGroup
from epochmq.controller.options import ControllerOptions
from epochmq.controller.server.controller_node import ControllerNode
from epochmq.raft.raft_node import SendBytes
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Reply, request
from epochmq.wire.header import encode_header

HEARTBEAT = RequestCode.BROKER_HEARTBEAT
ALTER = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
ELECT = RequestCode.CONTROLLER_ELECT_MASTER
REGISTER = RequestCode.CONTROLLER_REGISTER_BROKER
INFO = RequestCode.CONTROLLER_GET_REPLICA_INFO
METADATA = RequestCode.CONTROLLER_GET_METADATA_INFO
SYNC_STATE = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
CLEAN = RequestCode.CLEAN_BROKER_DATA
NEXT_ID = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
APPLY_ID = RequestCode.CONTROLLER_APPLY_BROKER_ID

KEY = ("c", "b")
NAMES = {"clusterName": "c", "brokerName": "b"}


class EvenRng:
    """`base.ports.Rng` whose election timeout is fixed."""

    def __init__(self, value: int) -> None:
        self.value = value

    def randrange(self, stop: int) -> int:
        return self.value % stop


def options(self_id: str = "n0", count: int = 1, **changes: Any) -> ControllerOptions:
    peers = ";".join(f"n{number}-10.9.0.{number}:9878" for number in range(count))
    fields: dict[str, Any] = {
        "controller_d_leger_group": "g",
        "controller_d_leger_peers": peers,
        "controller_d_leger_self_id": self_id,
    }
    return ControllerOptions(**(fields | changes))


class World:
    """`count` controllers; time passes in `run` alone. The first controller stands first."""

    def __init__(self, count: int = 1, **changes: Any) -> None:
        self.now = 1_000_000
        self.count = count
        self.changes = changes
        self.tokens = 0
        self.disks = {f"n{number}": SimDisk() for number in range(count)}
        self.nodes: dict[str, ControllerNode] = {}
        self.cut: set[tuple[str, str]] = set()
        self.mail: list[tuple[str, SendBytes]] = []
        self.answers: dict[int, Reply] = {}
        self.notices: list[Notify] = []
        self.dials: list[tuple[str, Dial]] = []
        self.refusing: set[str] = set()
        """Addresses of processes that are gone."""
        self.ignoring: set[str] = set()
        """Addresses that answer no notice."""
        for name, disk in self.disks.items():
            found_group(disk, options(name, count, **changes))
            self.start(name)
        self.run(2_000)

    def start(self, name: str) -> ControllerNode:
        given = options(name, self.count, **self.changes)
        rng = EvenRng(100 * int(name[1:]))
        node = ControllerNode.open(given, self.disks[name], rng, self.now)
        self.nodes[name] = node
        self._carry_out(name)
        return node

    def stop(self, name: str) -> None:
        """The process ends; what it wrote is there, what it knew is not."""
        del self.nodes[name]
        self.disks[name] = self.disks[name].crash(0)

    @property
    def leader(self) -> ControllerNode:
        leading = [node for node in self.nodes.values() if node.core.context.leads]
        return max(leading, key=lambda node: node.raft.term)

    @property
    def group(self) -> BrokerGroup:
        return self.leader.machine.groups[KEY]

    # Requests ---------------------------------------------------------------------------------

    def send(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        session: int = 0,
        to: str | None = None,
        version: int = 479,
    ) -> int:
        """Make a request of the leader, or of `to`; the token of its answer."""
        command = request(code, ext, body)
        command.language, command.version = "JAVA", version
        node = self.leader if to is None else self.nodes[to]
        name = next(name for name, one in self.nodes.items() if one is node)
        self.tokens += 1
        node.request(self.tokens, command, session, self.now)
        self._carry_out(name)
        return self.tokens

    def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **how: Any
    ) -> Reply:
        """`send`, and let time pass until the answer is there."""
        token = self.send(code, ext, body, **how)
        self.settle()
        for _ in range(500):
            if token in self.answers:
                return self.answers.pop(token)
            self.run(10)
        raise AssertionError("no answer in five seconds")

    # Time -------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Deliver what the controllers say to each other."""
        while self.mail:
            sender, send = self.mail.pop(0)
            node = self.nodes.get(send.node_id)
            if node is not None and (sender, send.node_id) not in self.cut:
                node.receive(send.data, self.now)
                self._carry_out(send.node_id)

    def run(self, ms: int) -> None:
        until = self.now + ms
        self.settle()
        while self.nodes:
            due, name = min((node.next_deadline(), name) for name, node in self.nodes.items())
            if due > until:
                break
            self.now = max(self.now, due)
            self.nodes[name].tick(self.now)
            self._carry_out(name)
            self.settle()
        self.now = until

    def _carry_out(self, name: str) -> None:
        node = self.nodes[name]
        while True:
            for effect in node.pop_effects():
                self._do(name, node, effect)
            call = node.pending_sync()
            if call is not None:
                call()
                node.synced(self.now)
            effects = node._effects
            if call is None and not effects:
                return

    def _do(self, name: str, node: ControllerNode, effect: Any) -> None:
        if isinstance(effect, SendBytes):
            self.mail.append((name, effect))
        elif isinstance(effect, SendReply):
            assert effect.token not in self.answers
            self.answers[effect.token] = effect.reply
        elif isinstance(effect, Dial):
            self.dials.append((name, effect))
            node.dialed(effect.ticket, effect.address in self.refusing, self.now)
        elif isinstance(effect, Notify):
            self.notices.append(effect)
            if effect.acknowledged:
                gone = effect.address in self.refusing | self.ignoring
                node.notified(effect.ticket, not gone, self.now)


def fields(reply: Reply) -> dict[str, str]:
    """The header of an answer as it travels."""
    if reply.header is None:
        return {}
    header = reply.header
    return dict(header) if isinstance(header, dict) else encode_header(header)  # type: ignore


class Broker:
    """A broker's own words, of EpochMQ's kind unless `stock`. Session ids are 100 and up."""

    def __init__(
        self, world: World, number: int, *, stock: bool = False, learner: bool = False
    ) -> None:
        self.world = world
        self.id = number
        self.address = f"10.0.0.{number}:10911"
        self.stock = stock
        self.learner = learner
        self.epoch = 0
        self.offset = 0
        self.session = f"s{number}"
        self.incarnation = f"i{number}"
        self.connection = 100 + number
        self.clean = True
        self.resign = False
        self.floor: int | None = None

    def apply(self) -> Reply:
        ext = {
            **NAMES,
            "appliedBrokerId": str(self.id),
            "registerCheckCode": f"{self.address};{self.id}",
        }
        if not self.stock:
            ext |= {"incarnation": self.incarnation, "learner": str(self.learner).lower()}
        return self.world.ask(APPLY_ID, ext, session=self.connection)

    def register(self, **how: Any) -> Reply:
        ext = {**NAMES, "brokerId": str(self.id), "brokerAddress": self.address, "invokeTime": "1"}
        if not self.stock:
            ext |= {
                "haAddress": f"10.0.0.{self.id}:10912",
                "incarnation": self.incarnation,
                "session": self.session,
                "cleanStart": str(self.clean).lower(),
                "learner": str(self.learner).lower(),
            }
            if self.floor is not None:
                ext["minInSyncReplicas"] = str(self.floor)
        return self.world.ask(REGISTER, ext, session=self.connection, **how)

    def beat_ext(self) -> dict[str, str]:
        ext = {
            **NAMES,
            "brokerAddr": self.address,
            "brokerId": str(self.id),
            "epoch": str(self.epoch),
            "maxOffset": str(self.offset),
            "confirmOffset": str(self.offset),
            "heartbeatTimeoutMills": "10000",
            "electionPriority": "2147483647",
        }
        if not self.stock:
            ext |= {
                "leaseWanted": "true",
                "incarnation": self.incarnation,
                "session": self.session,
                "cleanStart": str(self.clean).lower(),
                "learner": str(self.learner).lower(),
                "haAddress": f"10.0.0.{self.id}:10912",
            }
            if self.resign:
                ext["resign"] = "true"
        return ext

    def beat(self, **how: Any) -> Reply:
        return self.world.ask(HEARTBEAT, self.beat_ext(), session=self.connection, **how)

    def beat_all(self) -> None:
        for name in list(self.world.nodes):
            self.world.send(HEARTBEAT, self.beat_ext(), session=self.connection, to=name)
        self.world.settle()

    def elect(self) -> Reply:
        ext = {**NAMES, "brokerId": str(self.id), "designateElect": "false", "invokeTime": "1"}
        return self.world.ask(ELECT, ext, session=self.connection)

    def alter(self, members: list[int], set_epoch: int | None = None, **ext: str) -> Reply:
        group = self.world.group
        epoch = group.set_epoch if set_epoch is None else set_epoch
        header = {
            "brokerName": "b",
            "masterBrokerId": str(self.id),
            "masterEpoch": str(group.epoch),
            **ext,
        }
        if not self.stock:
            header["incarnation"] = self.incarnation
        text = f'{{"syncStateSet":{members},"syncStateSetEpoch":{epoch}}}'
        return self.world.ask(ALTER, header, text.encode(), session=self.connection)

    def close(self, *, refused: bool = False) -> None:
        """The connections to all controllers close; `refused`: the process is gone."""
        if refused:
            self.world.refusing.add(self.address)
        for name, node in list(self.world.nodes.items()):
            node.channel_closed(self.connection, self.world.now)
            self.world._carry_out(name)
        self.world.settle()


def brokers(world: World, count: int = 3, **how: Any) -> list[Broker]:
    """A group online: `count` brokers with numbers, the first of them master, all in the set."""
    found = [Broker(world, number, **how) for number in range(1, count + 1)]
    for broker in found:
        assert broker.apply().code == 0
        assert broker.register().code == 0
        broker.beat_all()
        assert broker.elect().code in (0, 2011)
    found[0].epoch = world.group.epoch
    for broker in found:
        broker.epoch = world.group.epoch
        broker.beat_all()
    if count > 1:
        assert found[0].alter(list(range(1, count + 1))).code == 0
    return found


def live_on(world: World, living: list[Broker], ms: int, every: int = 300) -> None:
    """Let time pass while these brokers send their heartbeats to all controllers."""
    until = world.now + ms
    while world.now < until:
        for broker in living:
            broker.beat_all()
        world.run(min(every, until - world.now))
