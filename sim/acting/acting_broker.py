"""The processes of a group without controllers: the product's broker and name server, observed.

`broker/server/broker_server.py` and `nameserver/name_server.py` run unchanged on
`sim.kernel.loop`. This module adds hooks that report roles, offsets, appended messages and
hand-overs to checkers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from epochmq.broker.group.metadata_sync import FetchTable
from epochmq.broker.group.plain_member import PlainMember
from epochmq.broker.group.replicated_tables import CopiedTable
from epochmq.broker.internal_writes.internal_writer import Done, Origin, Route, WriteOutcome
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.model.topic import PERM_READ_WRITE, TopicConfig
from epochmq.nameserver.name_server import NameServer
from epochmq.store.draft import Draft
from epochmq.store.native_send import SendRun
from sim.kernel.host import Host, HostClocks
from sim.kernel.runtime_patches import Served
from sim.kernel.workload import QUEUES, TOPICS
from sim.kernel.world import MS

if TYPE_CHECKING:
    from sim.acting.acting_world import ActingHistory

BROKER_PORT = 10_911
NAMES_PORT = 9_876
FAR_US = 1 << 60


class NamesProcess(Served):
    """One name server process."""

    def __init__(self, history: "ActingHistory", host: Host) -> None:
        self.server = NameServer(history.names_options, disk=host.disk, clock=HostClocks(host))
        self.began_us = host.world.time_us
        super().__init__(history.new_loop(host))

    async def main(self) -> None:
        await self.server.start()

    def state_line(self) -> str:
        groups = self.server.node.table.brokers.groups
        return f"knows { {name: dict(group.addrs) for name, group in groups.items()} }"


class WatchedBroker(Broker):
    """The product's broker; it reports to checkers before it serves."""

    process: "BrokerProcess"

    async def _open(self) -> None:
        await super()._open()
        self.process.furnish()

    def _open_ways_out(self) -> None:
        super()._open_ways_out()
        self.node.ways_out.use(_Away(self.process, self.escape))
        self.process.history.alter(self.process)


class _Away:
    """The route to other groups."""

    def __init__(self, process: "BrokerProcess", route: Route) -> None:
        self._process = process
        self._route = route

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        process = self._process

        def settled(outcomes: Sequence[WriteOutcome]) -> None:
            if WriteOutcome.STORED in outcomes:
                process.world.mark(f"covered.escaped.{origin.name.lower()}")
            done(outcomes)

        self._route.put(drafts, origin, wall, settled)


class BrokerProcess(Served):
    """One broker process of a group."""

    def __init__(self, history: "ActingHistory", host: Host) -> None:
        self.history = history
        self.host = host
        self.world = host.world
        self.group = history.group_of(host.name)
        self.ready = False
        """Whether its store and tables are open."""
        self.settled = False
        """Whether its tables are of this life: copied, or its own as (acting) master. What
        a process finds on its disk may be older, or known to nobody else; see `inv_29`. No more,
        once a master came online without it, until it copies that master's."""
        self._asked_us = 0
        """When it asked for the offsets that it copies next."""
        self._unheard_us = -1
        """When a master came online without it."""
        self._handed_over_us = -FAR_US
        """When it stepped down for a master that was to come online."""
        self.watched = WatchedBroker(
            history.broker_options(host.name), disk=host.disk, clock=HostClocks(host)
        )
        self.watched.process = self
        super().__init__(history.new_loop(host))

    async def main(self) -> None:
        await self.watched.start()

    @property
    def node(self) -> Any:
        return self.watched.node

    @property
    def member(self) -> PlainMember:
        member = self.watched.member
        assert isinstance(member, PlainMember)
        return member

    @property
    def role(self) -> Role:
        return self.watched.node.serving.role if self.ready else Role.FENCED

    def furnish(self) -> None:
        """The node is there, nothing runs yet."""
        node = self.node
        node.topics.add_system(
            TopicConfig(
                topic_name=name,
                read_queue_nums=QUEUES,
                write_queue_nums=QUEUES,
                perm=PERM_READ_WRITE,
            )
            for name in TOPICS
        )
        self.ready = True
        self._hear(node.serving, "change_role", self._took_role)
        self._hear(node.offsets, "adopt", self._adopted)
        self._hear(node.offsets, "commit", self._commits)
        self._hear(node.store, "append", self._appends)
        self._hear(node.store, "append_run", self._appends)
        self._hear(node.internal_writer, "put", self._puts)
        self._hear(self.member, "master_returns", self._master_returns)
        self._hear(self.member.sync.core, "due", self._asks)

    def _hear(self, owner: Any, verb: str, heard: Callable[..., Any]) -> None:
        """Replace the method `verb` by `heard`, which gets the original method as first
        argument.
        """
        plain = getattr(owner, verb)
        setattr(owner, verb, lambda *args, **named: heard(plain, *args, **named))

    def _took_role(self, plain: Callable[[Role], None], role: Role) -> None:
        before = self.role
        if before is Role.PRE_ONLINE and role is Role.MASTER:
            self._forget_the_unheard()
        self.tell("takes_role", self, before, role)
        plain(role)
        self.settled = self.settled or role in (Role.MASTER, Role.ACTING_MASTER)
        if role is Role.ACTING_MASTER:
            self.world.mark("covered.stood_in")
        elif role is Role.MASTER and before is Role.PRE_ONLINE:
            self.world.mark("covered.online")
        elif role is Role.PRE_ONLINE:
            self.world.mark("covered.sent_back")

    def _forget_the_unheard(self) -> None:
        """Nobody can take over from a member that was cut off from the name servers (ADR 0050)."""
        for other in self.history.brokers(self.group):
            if other is self or not other.settled or other.has_handed_over():
                continue
            if self.history.unheard(other.host.name):
                other.settled, other._unheard_us = False, self.world.time_us
                self.world.mark("covered.unheard")

    def has_handed_over(self) -> bool:
        """Whether the master that comes online now took its tables: for so long it is held."""
        held_us = self.node.options.broker_not_active_timeout_millis // 2 * MS
        return self.world.time_us - self._handed_over_us <= held_us

    def _asks(self, plain: Callable[[int], list[FetchTable]], now: int) -> list[FetchTable]:
        fetches = plain(now)
        if any(fetch.table is CopiedTable.OFFSETS for fetch in fetches):
            self._asked_us = self.world.time_us
        return fetches

    def _adopted(
        self, plain: Callable[..., None], content: Mapping[str, Any], *, whole: bool
    ) -> None:
        before = {key: dict(row) for key, row in self.node.offsets.table.items()}
        plain(content, whole=whole)
        self.tell("adopted", self, before)
        self.settled = self.settled or self._asked_us > self._unheard_us

    def _commits(self, plain: Callable[..., None], *args: Any) -> None:
        self.tell("commits", self, *args[:4])
        plain(*args)

    def _appends(self, plain: Callable[..., Any], *args: Any) -> Any:
        self.tell("appends", self)
        what = args[0]
        run = isinstance(what, SendRun)
        self.tell("arrives", self, [one.draft for one in what.unpack()] if run else what)
        return plain(*args)

    def _puts(
        self,
        plain: Callable[..., None],
        drafts: Sequence[Draft],
        origin: Origin,
        wall: int,
        done: Done,
    ) -> None:
        batch = object()
        self.tell("puts", self, drafts, origin, batch)

        def settled(outcomes: Sequence[WriteOutcome]) -> None:
            self.tell("put", outcomes, batch)
            done(outcomes)

        plain(drafts, origin, wall, settled)

    def _master_returns(self, plain: Callable[..., bool], *args: Any, hand_over: bool) -> bool:
        acted = self.role is Role.ACTING_MASTER
        if hand_over:
            taker = self.world.hosts[f"{self.group}0"]
            self.history.injector.hands_over(self.host, taker)
        answer = plain(*args, hand_over=hand_over)
        if hand_over:
            self._handed_over_us = self.world.time_us
        if hand_over and acted:
            self.world.mark("covered.handed_over")
        return answer

    def state_line(self) -> str:
        if not self.ready:
            return "opening"
        node, member = self.node, self.member
        back, acting = member.pre_online, member.acting
        said = "" if acting is None else f" {acting.figures()}"
        return (
            f"{self.role.name} log {node.store.pointers}"
            f" pre-online: {'' if back is None else back.core.state}{said}"
            f" levels {node.schedule.progress()} escape {self.watched.escape.core.statistics()}"
            f" offsets {node.offsets.table} log trouble {member.log_watch.trouble[:60]}"
        )
