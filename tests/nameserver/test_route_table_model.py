"""The route table against a model that is too simple to be wrong (or fast)."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.nameserver.world import configs, told

from epochmq.base.errors import Refused
from epochmq.nameserver.options import NamesrvOptions
from epochmq.nameserver.route_table import RouteTable
from epochmq.nameserver.routes import Routes
from epochmq.wire.bodies.body import encode_body

NAMES = st.sampled_from(["b1", "b2"])
IDS = st.integers(0, 2)
HOSTS = st.sampled_from(["x", "y", "z"])
TOPICS = st.sampled_from(["A", "B", "C", "D"])
TIMEOUT_MS = 100


@dataclass
class Known:
    name: str
    last: int
    session: int
    version: tuple[int, int]


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable(NamesrvOptions())
        self.routes = Routes(self.table, lambda topic: None)
        self.now = 0
        self.ids: dict[str, dict[int, str]] = {}
        self.live: dict[str, Known] = {}
        self.epochs: dict[str, dict[int, int]] = {}
        self.perms: dict[tuple[str, str], int] = {}

    # Rules ---------------------------------------------------------------------------------------

    @rule(
        name=NAMES,
        broker_id=IDS,
        host=HOSTS,
        topics=st.sets(TOPICS),
        perm=st.sampled_from([4, 6, 7]),
        epoch=st.integers(0, 3),
        counter=st.integers(1, 2),
        session=st.integers(1, 3),
    )
    def register(
        self,
        name: str,
        broker_id: int,
        host: str,
        topics: set[str],
        perm: int,
        epoch: int,
        counter: int,
        session: int,
    ) -> None:
        addr = f"{name}.{host}:1"
        wanted = configs(*sorted(topics), perm=perm)
        registration = told(
            broker_id,
            addr,
            topics=wanted,
            epoch=epoch,
            counter=counter,
            name=name,
            session_id=session,
            timeout_ms=TIMEOUT_MS,
        )
        newcomer = broker_id not in self.ids.get(name, {})
        try:
            self.table.register(registration, self.now)
        except Refused:
            assert newcomer
            assert len(topics) == 1
            return
        assert not (newcomer and len(topics) == 1)
        self.model_register(name, broker_id, addr, wanted.keys(), perm, (epoch, counter), session)

    def model_register(
        self,
        name: str,
        broker_id: int,
        addr: str,
        topics: object,
        perm: int,
        version: tuple[int, int],
        session: int,
    ) -> None:
        fresh = name not in self.ids
        ids = self.ids.setdefault(name, {})
        for other in [number for number, held in ids.items() if held == addr]:
            if other != broker_id:
                del ids[other]
        if self.outranked(ids, name, broker_id, addr, version[0]):
            self.live.pop(addr, None)
            return
        news = fresh or broker_id not in ids or addr not in self.live
        news = news or self.live[addr].version != version
        ids[broker_id] = addr
        if broker_id == 0:
            claims = {} if fresh else self.epochs.get(name, {})
            claims[session] = max(claims.get(session, 0), version[0])
            self.epochs[name] = claims
            for topic in list(topics):  # type: ignore[call-overload]
                if news or (topic, name) not in self.perms:
                    self.perms[topic, name] = perm
        self.live[addr] = Known(name, self.now, session, version)

    def outranked(
        self, ids: dict[int, str], name: str, broker_id: int, addr: str, epoch: int
    ) -> bool:
        holder = ids.get(broker_id)
        if not ids or holder == addr:
            return False
        if holder in self.live and self.live[holder].version[0] > epoch:
            return True
        return broker_id == 0 and 0 < epoch < max(self.epochs.get(name, {}).values(), default=0)

    @rule(name=NAMES, host=HOSTS)
    def unregister(self, name: str, host: str) -> None:
        addr = f"{name}.{host}:1"
        self.table.unregister("c", name, addr)
        self.model_leave(addr)

    def model_leave(self, addr: str) -> None:
        self.live.pop(addr, None)
        for name, ids in list(self.ids.items()):
            for number in [number for number, held in ids.items() if held == addr]:
                del ids[number]
            if not ids:
                del self.ids[name]
                self.epochs.pop(name, None)
                self.perms = {key: perm for key, perm in self.perms.items() if key[1] != name}

    @rule(session=st.integers(1, 3))
    def close(self, session: int) -> None:
        self.table.session_closed(session)
        for addr in [addr for addr, known in self.live.items() if known.session == session]:
            self.model_leave(addr)
        for claims in self.epochs.values():
            claims.pop(session, None)

    @rule(name=NAMES, host=HOSTS)
    def heartbeat(self, name: str, host: str) -> None:
        addr = f"{name}.{host}:1"
        self.table.heartbeat("c", addr, self.now)
        if addr in self.live:
            self.live[addr].last = self.now

    @precondition(lambda self: self.live)
    @rule(elapsed=st.integers(1, TIMEOUT_MS))
    def scan(self, elapsed: int) -> None:
        self.now += elapsed
        silent = {addr for addr, known in self.live.items() if known.last + TIMEOUT_MS < self.now}
        assert {live.addr for live in self.table.expire(self.now)} == silent
        for addr in silent:
            self.model_leave(addr)

    @rule(name=NAMES, write=st.booleans())
    def permissions(self, name: str, write: bool) -> None:
        mine = [key for key in self.perms if key[1] == name]
        if write:
            assert self.table.add_write(name) == len(mine)
        else:
            assert self.table.wipe_write(name) == len(mine)
        for key in mine:
            self.perms[key] = 6 if write else self.perms[key] & ~2

    @rule(topic=TOPICS)
    def delete(self, topic: str) -> None:
        self.table.delete_topic(topic)
        self.perms = {key: perm for key, perm in self.perms.items() if key[0] != topic}

    # What always holds ---------------------------------------------------------------------------

    @invariant()
    def it_equals_the_model(self) -> None:
        brokers = self.table.brokers
        assert {name: group.addrs for name, group in brokers.groups.items()} == self.ids
        assert {addr for _, addr in brokers.live} == set(self.live)
        assert brokers.clusters == ({"c": set(self.ids)} if self.ids else {})
        held = self.table.topics.queues
        perms = {(t, name): one.perm for t, names in held.items() for name, one in names.items()}
        assert perms == self.perms

    @invariant()
    def kept_routes_are_never_stale(self) -> None:
        for topic in "ABCD":
            route = self.table.route(topic)
            shown = self.routes.encoded(topic, bare=False)
            assert shown == (None if route is None else encode_body(route))
            assert (route is not None) == any(key[0] == topic for key in self.perms)

    @invariant()
    def an_address_has_one_id_a_group(self) -> None:
        for group in self.table.brokers.groups.values():
            assert len(set(group.addrs.values())) == len(group.addrs)


TestRouteTable = Machine.TestCase
