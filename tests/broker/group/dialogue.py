"""A membership core and somebody who answers its questions, by hand."""

from dataclasses import dataclass, field
from typing import Any

from epochmq.broker.group.broker_identity import RETRY_MS, Known
from epochmq.broker.group.group_membership import NOTICE_MS, Membership
from epochmq.broker.group.member_options import LogState, MembershipOptions
from epochmq.broker.group.membership_effects import (
    BecomeMaster,
    Effect,
    Question,
    ReplicasTold,
    SendCommand,
    Switch,
    Tell,
)
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import SyncStateSet
from epochmq.wire.command import Command

CONTROLLERS = ("c:1", "c:2", "c:3")
LEASE_MS = 2000


def options(**more: object) -> MembershipOptions:
    values: dict[str, Any] = {
        "cluster": "C",
        "broker": "b",
        "address": "10.0.0.1:10911",
        "ha_address": "10.0.0.1:10912",
        "controllers": CONTROLLERS,
        "incarnation": "inc",
        "session": "s1",
        "heartbeat_ms": 300,
        **more,
    }
    return MembershipOptions(**values)


def group(
    epoch: int | None = None,
    master: int | None = None,
    members: tuple[int, ...] | None = None,
    set_epoch: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """The fields of an answer that describes the group."""
    fields: dict[str, Any] = {}
    if epoch is not None:
        fields["masterEpoch"] = epoch
        fields["syncStateSetEpoch"] = set_epoch
    if master is not None:
        fields["masterBrokerId"] = master
        fields["masterAddress"] = f"10.0.0.{master}:10911"
        fields["masterHaAddress"] = f"10.0.0.{master}:10912"
    if members is not None:
        fields["members"] = members
    return {**fields, **more}


def answer(code: int = 0, remark: str | None = None, **fields: object) -> Command:
    members = fields.pop("members", None)
    ext = {key: str(value) for key, value in fields.items() if value is not None}
    body = b""
    if isinstance(members, tuple):
        set_epoch = int(ext.get("syncStateSetEpoch", "0"))
        body = encode_body(SyncStateSet(list(members), set_epoch))
    return Command(code, remark=remark, ext=ext, body=body)


@dataclass
class Dialogue:
    """Keeps what was asked and done; `now` is the core's clock."""

    core: Membership
    now: int = 0
    wall: int = 1_700_000_000_000
    asks: list[SendCommand] = field(default_factory=list)
    tells: list[Tell] = field(default_factory=list)
    done: list[Effect] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        *,
        broker_id: int | None = 1,
        known: Known | None = None,
        log: LogState | None = None,
        **more: Any,
    ) -> "Dialogue":
        state = log or LogState()
        core = Membership(options(**more), lambda: state, broker_id=broker_id, known=known)
        talk = cls(core)
        talk.take(core.start(talk.now, talk.wall))
        return talk

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendCommand):
                self.asks.append(effect)
            elif isinstance(effect, Tell):
                self.tells.append(effect)
            else:
                self.done.append(effect)

    def tick(self, now: int | None = None) -> None:
        self.now = self.now if now is None else now
        self.take(self.core.tick(self.now, self.wall))

    def pending(self, kind: Question, address: str | None = None) -> list[SendCommand]:
        return [
            ask
            for ask in self.asks
            if ask.tag.kind is kind and (address is None or ask.address == address)
        ]

    def pop(self, kind: Question, address: str | None = None) -> SendCommand:
        """The oldest open question of this kind; it is not open any more."""
        ask = self.pending(kind, address)[0]
        self.asks.remove(ask)
        return ask

    def reply(
        self,
        kind: Question,
        code: int = 0,
        *,
        address: str | None = None,
        remark: str | None = None,
        **fields: Any,
    ) -> SendCommand:
        ask = self.pop(kind, address)
        self.take(self.core.answered(ask.tag, answer(code, remark, **fields), self.now))
        return ask

    def notice(self, **fields: Any) -> None:
        """Somebody sends a notice; asked, the active controller answers so."""
        self.now += NOTICE_MS
        self.asks = [ask for ask in self.asks if ask.tag.kind is not Question.REPLICA_INFO]
        self.core._talk = None
        self.take(self.core.notified(self.now))
        self.reply(Question.REPLICA_INFO, **fields)

    def ask_ids(self) -> frozenset[int]:
        """A master asks for the registered ids: no word, a lost question, an answer."""
        self.master()
        self.done.clear()
        self.take(self.core.want_replicas(self.now))
        self.take(
            self.core.answered(self.pop(Question.REPLICAS).tag, Command(0, body=b"{}"), self.now)
        )
        assert not [effect for effect in self.done if isinstance(effect, ReplicasTold)]
        self.tick(self.now + RETRY_MS)
        self.fail(Question.REPLICAS)
        self.tick(self.now + RETRY_MS)
        self.find()
        body = b'{"replicasInfoTable":{"b":{"inSyncReplicas":[{"brokerId":1}]}}}'
        told = self.core.answered(self.pop(Question.REPLICAS).tag, Command(0, body=body), self.now)
        (effect,) = told
        assert isinstance(effect, ReplicasTold)
        return effect.ids

    def fail(
        self, kind: Question, address: str | None = None, *, lost: bool = False
    ) -> SendCommand:
        ask = self.pop(kind, address)
        self.take(self.core.failed(ask.tag, self.now, lost=lost))
        return ask

    def find(self, address: str = "c:1", term: int = 1) -> None:
        """`address` answers that it is the active controller."""
        self.reply(
            Question.METADATA, address=address, isLeader=True, controllerLeaderAddress=address,
            controllerTerm=term,
        )  # fmt: skip

    def beat(self, **fields: object) -> SendCommand:
        """The active controller, one with leases, answers the newest heartbeat to it."""
        active = self.core.finder.active
        for old in self.pending(Question.HEARTBEAT, active)[:-1]:
            self.asks.remove(old)
        more = {"isLeader": True, "leaseSupported": True, "controllerTerm": 1, **fields}
        return self.reply(Question.HEARTBEAT, address=active, **more)

    def beat_refused(self, code: int) -> None:
        """The active controller refuses the newest heartbeat."""
        if not self.pending(Question.HEARTBEAT, self.core.finder.active):
            self.tick(self.now + 1000)
        active = self.core.finder.active
        for old in self.pending(Question.HEARTBEAT, active)[:-1]:
            self.asks.remove(old)
        self.reply(Question.HEARTBEAT, code, address=active)

    def switched(self, *, ok: bool = True, problem: str = "") -> Any:
        """The last switch that was asked for is reported done, or refused."""
        found = self.last(Switch)
        self.take(self.core.role_done(found, self.now, ok=ok, problem=problem))
        return found

    def last(self, kind: Any) -> Any:
        """The newest effect of a kind."""
        found = [effect for effect in self.done if isinstance(effect, kind)]
        assert found, f"no {kind} among {self.done}"
        return found[-1]

    def count(self, kind: Any) -> int:
        return sum(isinstance(effect, kind) for effect in self.done)

    def online(self) -> None:
        """Find the active controller and register, without a master yet."""
        self.find()
        self.reply(Question.REGISTER)

    def master(self, epoch: int = 1, members: tuple[int, ...] = (1,), set_epoch: int = 1) -> None:
        """Become the group's master, with a lease."""
        self.online()
        self.reply(Question.ELECT, **group(epoch, 1, members, set_epoch))
        assert isinstance(self.switched(), BecomeMaster)
        for _ in self.pending(Question.REPLICA_INFO):
            self.reply(Question.REPLICA_INFO, **group(epoch, 1, members, set_epoch))
        self.lease(epoch, members, set_epoch)

    def lease(self, epoch: int, members: tuple[int, ...] = (1,), set_epoch: int = 1) -> SendCommand:
        fields = group(epoch, 1, None, set_epoch)
        return self.beat(leaseMillis=LEASE_MS, **fields)

    def forget_beats(self) -> None:
        """Answer all heartbeats that are open with nothing new."""
        for ask in self.pending(Question.HEARTBEAT):
            self.asks.remove(ask)
            self.core.failed(ask.tag, self.now, lost=False)
