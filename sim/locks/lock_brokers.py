"""A simulated broker with strict queue locks, in a group without controllers.

It combines the product's cores for locks, acting master and registration on one simulated host. It
has no log: roles change as with skipPreOnline=true, so that a master and an acting master can
exist at the same time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from epochmq.base.errors import EnvironmentFault
from epochmq.broker.consume.queue_locks import VOTE_LIFE_MS, Attempt, QueueLocks
from epochmq.broker.group.acting_master import (
    Act,
    Acting,
    ActingOptions,
    Beat,
    Cease,
    Effect,
    Poll,
    Probe,
    RegisterFully,
)
from epochmq.broker.group.lock_ballot import PAUSE_MS, LockRequest, attempt_of, quorum_of
from epochmq.broker.group.registration import RegisterAt as Registering
from epochmq.broker.group.registration import RegistrationPlan
from epochmq.broker.serving.roles import ROLES, Role
from epochmq.broker.state.saved_files import load_table, save_dirty
from epochmq.model.data_version import DataVersion
from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.group_bodies import LockBatchRequest, LockBatchResponse
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import ExchangeHAInfoHeader
from epochmq.wire.headers.group_headers import LockBatchHeader, UnlockBatchHeader
from epochmq.wire.headers.namesrv_headers import (
    QueryDataVersionResponseHeader,
    RegisterBrokerHeader,
)
from sim.controller.member import CLUSTER, GROUP
from sim.kernel.host import Host
from sim.kernel.rpc import Answered, Failed, Rpc, Session
from sim.kernel.world import MS, SECOND

if TYPE_CHECKING:
    from sim.locks.locks_world import LocksHistory

TOPIC = "T"
TICK_MS = 250
REGISTER_MS = 30_000
VOTE_TIMEOUT_US = SECOND
UNAVAILABLE = ResponseCode.SERVICE_NOT_AVAILABLE


class LockBroker:
    """One process."""

    def __init__(self, history: "LocksHistory", host: Host, number: int) -> None:
        self.history = history
        self.host = host
        self.world = host.world
        self.number = number
        self.address = history.address_of(host.name)
        self.rpc = Rpc(history.net, host)
        self.rpc.on_closed = self._closed
        self.role = Role.SLAVE if number else Role.MASTER
        now = host.now
        self.locks = QueueLocks(life_ms=VOTE_LIFE_MS, start_ms=now)
        host.disk.make_dir("config")
        host.disk.sync_dir("")  # as RealDisk does for the first file of a folder
        load_table(host.disk, self.locks)
        self.attempts = host.wall << 20
        servers = tuple(history.address_of(name) for name in history.server_names)
        options = ActingOptions(
            CLUSTER,
            GROUP,
            number,
            self.address,
            compat=history.compat,
            not_active_ms=history.not_active_ms,
        )
        self.acting = Acting(options, servers, now)
        self.acting.ready = True
        self.registration = RegistrationPlan(servers, REGISTER_MS, now)
        self.version = DataVersion(0, 1, 1)
        self.tick_at = now

    def state_line(self) -> str:
        held = self.locks.encode().decode()
        return f"id {self.number} {self.role.name} {self.acting.statistics()} {held}"

    # Time ---------------------------------------------------------------------------------------

    def wake(self, now: int) -> int:
        if now >= self.tick_at:
            self.tick_at = now + TICK_MS
            self.locks.expire(now)
            self._do(self.acting.tick(now, self.version))
            self._register(now)
        return self.tick_at

    def next_deadline(self) -> int:
        return self.tick_at

    def _closed(self, name: str) -> None:
        now, address = self.host.now, self.history.address_of(name)
        self.acting.lost(address, now)
        self.registration.lost(address, now)
        if name in self.history.broker_names:
            self.acting.hint(now)

    # In the group -------------------------------------------------------------------------------

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Beat():
                    self._beat(effect)
                case Poll():
                    self._poll(effect)
                case Probe():
                    self._probe(effect)
                case RegisterFully():
                    self.registration.forgotten(effect.address, self.host.now)
                case Act():
                    self._take(Role.ACTING_MASTER)
                case Cease():
                    self._take(Role.SLAVE)
                case _:
                    pass  # lines for the log, and a way back that is skipped

    def _take(self, role: Role) -> None:
        self.role = role
        self.world.mark(f"covered.{role.name.lower()}")
        self.world.tell("took_role", self, role)
        self.registration.everything_changed()

    def _beat(self, beat: Beat) -> None:
        def answered(answer: Command) -> None:
            if beat.asked and answer.code == 0:
                found = decode_header(QueryDataVersionResponseHeader, answer.ext)
                now = self.host.now
                self._do(self.acting.beaten(beat.address, changed=found.changed, now=now))

        beat.command.flag = 0  # answered, so that a lost one is given up
        name = self.history.host_at(beat.address)
        self.rpc.call(name, beat.command, SECOND, answered, lambda _lost: None)

    def _poll(self, poll: Poll) -> None:
        def heard(answer: Command | None) -> None:
            now = self.host.now
            self._do(self.acting.polled(poll.address, answer, now, "no answer"))
            self._register(now)

        name = self.history.host_at(poll.address)
        self.rpc.call(name, poll.command, 3 * SECOND, heard, lambda _lost: heard(None))

    def _probe(self, probe: Probe) -> None:
        def heard(answer: Command | None) -> None:
            self._do(self.acting.probed(probe, answer, self.host.now))

        name = self.history.host_at(probe.address)
        self.rpc.call(name, probe.command, SECOND, heard, lambda _lost: heard(None))

    def _register(self, now: int) -> None:
        for call in self.registration.due(now):
            self._register_at(call)

    def _register_at(self, call: Registering) -> None:
        def heard(answer: Command | None) -> None:
            now = self.host.now
            self.registration.done(call, answer is not None and answer.code == 0, now)
            self._register(now)

        header = RegisterBrokerHeader(
            brokerName=GROUP,
            brokerAddr=self.address,
            clusterName=CLUSTER,
            haServerAddr=self.address,
            brokerId=self.number,
            heartbeatTimeoutMillis=self.history.not_active_ms,
            enableActingMaster=True,
        )
        names = (TOPIC, MEMBER_TOPIC_PREFIX + GROUP)
        table = {name: TopicConfig(name, 4, 4) for name in names}
        body = encode_body(RegisterBrokerBody(TopicConfigTable(table, data_version=self.version)))
        command = request(RequestCode.REGISTER_BROKER, header, body)
        name = self.history.host_at(call.address)
        self.rpc.call(name, command, 3 * SECOND, heard, lambda _lost: heard(None))

    # Requests -----------------------------------------------------------------------------------

    def session_closed(self, session: Session) -> None: ...

    def request(self, command: Command, session: Session) -> None:
        match command.code:
            case RequestCode.LOCK_BATCH_MQ:
                self._lock(command, session)
            case RequestCode.UNLOCK_BATCH_MQ:
                self._unlock(command)
                session.answer(command, Reply())
            case RequestCode.EXCHANGE_BROKER_HA_INFO:
                serves = self.address if self.role is Role.MASTER else None
                session.answer(command, Reply(header=ExchangeHAInfoHeader(masterAddress=serves)))
            case RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE:
                self.acting.hint(self.host.now)
                session.answer(command, Reply())
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                session.answer(command, self._commit(command.ext or {}))

    def _commit(self, ext: dict[str, str]) -> Reply:
        queue = queue_of(int(ext["queueId"]))
        client = ext["clientId"]
        if not ROLES[self.role].consumes:
            return Reply(ResponseCode.SYSTEM_ERROR, "no master")
        if self.locks.another_holds(ext["consumerGroup"], queue, client, self.host.now):
            self.world.mark("covered.commit_refused")
            return Reply(ResponseCode.SYSTEM_ERROR, "another consumer holds it")
        self.world.mark("covered.committed")
        self.world.tell("commit_taken", self, client, queue)
        return Reply()

    # Locks --------------------------------------------------------------------------------------

    def _lock(self, command: Command, session: Session) -> None:
        wanted = decode_body(LockBatchRequest, command.body)
        try:
            if wanted.only_this_broker:
                session.answer(command, self._vote(command, wanted))
            elif not ROLES[self.role].consumes:
                session.answer(command, Reply(ResponseCode.SYSTEM_ERROR, "no master"))
            else:
                _Locking(self, wanted, command, session).ask()
        except EnvironmentFault as error:
            session.answer(command, Reply(UNAVAILABLE, str(error)))

    def _vote(self, command: Command, wanted: LockBatchRequest) -> Reply:
        header = decode_header(LockBatchHeader, command.ext)
        attempt = attempt_of(header)
        queues = wanted.mq_set
        held = self.locks.lock(
            wanted.consumer_group, queues, wanted.client_id, self.host.now, attempt
        )
        self.save()
        return Reply(header=header, body=encode_body(LockBatchResponse(held)))

    def save(self) -> None:
        """Save changed tables before an answer is sent (INV-31)."""
        save_dirty(self.host.disk, (self.locks,))

    def _unlock(self, command: Command) -> None:
        wanted = decode_body(LockBatchRequest, command.body)
        header = decode_header(UnlockBatchHeader, command.ext)
        attempt, locks = attempt_of(header), self.locks
        group, client = wanted.consumer_group, wanted.client_id
        if not wanted.only_this_broker:
            attempt = self.next_attempt()
            locks.unlock(group, wanted.mq_set, client, attempt)
            for name in self.members().values():
                self.tell_member(name, wanted, wanted.mq_set, attempt, undo=False)
        elif header.lockUndo and attempt is not None:
            locks.undo_locks(group, wanted.mq_set, client, attempt)
        else:
            locks.unlock(group, wanted.mq_set, client, attempt)

    def members(self) -> Mapping[int, str]:
        """Return the hosts of the other members, by id."""
        others = self.acting.view.others()
        return {number: self.history.host_at(address) for number, address in others.items()}

    def next_attempt(self) -> Attempt:
        self.attempts += 1
        return Attempt(str(self.number), self.attempts)

    def tell_member(
        self,
        name: str,
        wanted: LockBatchRequest,
        queues: list[MessageQueue],
        attempt: Attempt,
        *,
        undo: bool,
    ) -> None:
        header = UnlockBatchHeader(
            lockAsker=attempt.asker, lockNumber=attempt.number, lockUndo=undo or None
        )
        command = request(RequestCode.UNLOCK_BATCH_MQ, header, for_member(wanted, queues))
        self.rpc.call(name, command, SECOND, lambda _answer: None, lambda _lost: None)


class _Locking:
    """One lock request of a client in progress, as `LockVotes` processes it."""

    def __init__(
        self, broker: LockBroker, wanted: LockBatchRequest, command: Command, session: Session
    ) -> None:
        self._broker = broker
        self._wanted = wanted
        self._command = command
        self._session = session
        group, client = wanted.consumer_group, wanted.client_id
        quorum = quorum_of(broker.history.replicas, broker.history.safe)
        now = broker.host.now
        self._asking = LockRequest(broker.locks, group, client, wanted.mq_set, quorum, now)
        self._attempt = Attempt("", 0)
        self._members: Mapping[int, str] = {}
        self._over = False

    def ask(self) -> None:
        """Start a ballot; raises `EnvironmentFault` when the own votes cannot be saved."""
        broker, asking = self._broker, self._asking
        self._members, self._over = broker.members(), False
        attempt = self._attempt = broker.next_attempt()
        wanted = asking.begin(self._members.keys(), attempt, broker.host.now)
        broker.save()
        for number, name in self._members.items() if wanted else ():
            header = LockBatchHeader(
                lockAsker=attempt.asker,
                lockNumber=attempt.number,
                totalReplicas=broker.history.replicas,
            )
            body = for_member(self._wanted, wanted)
            command = request(RequestCode.LOCK_BATCH_MQ, header, body)
            answered, silent = self._hearers(number, attempt)
            broker.rpc.call(name, command, VOTE_TIMEOUT_US, answered, silent)
        self._look()

    def _try_to_end(self) -> None:
        try:
            self._look()
        except EnvironmentFault as error:
            self._session.answer(self._command, Reply(UNAVAILABLE, str(error)))

    def _hearers(self, number: int, attempt: Attempt) -> tuple[Answered, Failed]:
        def heard(answer: Command | None) -> None:
            if attempt != self._attempt or self._over:
                return
            if answer is None or answer.code != 0:
                self._asking.ballot.silent(number)
            else:
                queues = decode_body(LockBatchResponse, answer.body).lock_ok_mq_set
                self._asking.ballot.voted(number, queues, exact=True)
            self._try_to_end()

        return heard, lambda _lost: heard(None)

    def _look(self) -> None:
        """When the ballot is decided, answer the client or try again."""
        broker, asking = self._broker, self._asking
        if not asking.ballot.decided:
            return
        self._over = True
        for number, queues in asking.end(broker.host.now).items():
            broker.world.mark("covered.undone")
            name = self._members[number]
            broker.tell_member(name, self._wanted, queues, self._attempt, undo=True)
        broker.save()
        if asking.tries_again(broker.host.now):
            least, most = PAUSE_MS
            pause = least + broker.world.streams["pause"].randrange(most - least)
            broker.world.mark("covered.second_try")
            broker.world.after(pause * MS, "again", self._again, broker.host)
            return
        broker.world.tell("locks_given", broker, self._wanted.client_id, asking.granted)
        body = encode_body(LockBatchResponse(asking.granted))
        self._session.answer(self._command, Reply(body=body))

    def _again(self) -> None:
        try:
            self.ask()
        except EnvironmentFault as error:
            self._session.answer(self._command, Reply(UNAVAILABLE, str(error)))


def queue_of(number: int) -> MessageQueue:
    return MessageQueue(TOPIC, GROUP, number)


def for_member(wanted: LockBatchRequest, queues: list[MessageQueue]) -> bytes:
    return encode_body(LockBatchRequest(wanted.consumer_group, wanted.client_id, queues, True))
