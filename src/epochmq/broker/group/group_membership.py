"""Membership in controller mode: when a broker is master, follower or fenced (RIP-44).

A broker goes online in these steps: find the active controller; apply for a broker id, once in the
replica's life; register; take the role that the group has for it, or ask for an election.
Afterwards the answers to heartbeats and polls bring a `GroupDescription`, and `_see` is the one
place that acts on it. A notice (1008) only triggers a poll: anyone who reaches the port can send
one. Rules beyond RocketMQ's:

- A broker does not become master again under an epoch from before it registered; it asks for a new
  one. It goes on only if the controllers refuse that (Java's) and its log lost nothing.
- The role is switched first and recorded last; after a failed switch it fences and tries again.
- A description older than the (epoch, term) kept on disk is ignored.
- A broker asks a wiped controller to take back the id that it has (`online.py`).
- A proposal stays open until an answer or a newer set comes; a timeout decides nothing.

A master acknowledges only while its lease is valid; code that acknowledges or reads checks `lease`
at that moment, so a pause between two calls of this core does no harm (S17).
"""

from collections.abc import Callable, Iterable

from epochmq.base.jumps import Jumps
from epochmq.broker.group.broker_identity import Known, RegisterQuestion, Temp
from epochmq.broker.group.controller_requests import (
    ControllerAnswer,
    ControllerRequests,
    GroupDescription,
    is_old,
    merge,
    read_answer,
    read_view,
    role_in,
    same_role,
    unelected,
)
from epochmq.broker.group.finder import Finder
from epochmq.broker.group.lease import Floor, Heartbeats, Lease
from epochmq.broker.group.member_options import LogState, MembershipOptions
from epochmq.broker.group.membership_effects import (
    Asker,
    BecomeMaster,
    Effect,
    Fence,
    FloorChanged,
    Proposal,
    ProposalFailed,
    Proposals,
    Question,
    ReplicasTold,
    SaveKnown,
    SetCommitted,
    Switch,
    Tag,
    UncleanRecorded,
    Voice,
    failures,
)
from epochmq.broker.group.online import PAUSE_MAX_MS, Online
from epochmq.wire.codes import ResponseCode as Code
from epochmq.wire.command import Command

Effects = list[Effect]

SWITCH_RETRY_MS = 500
FLOOR_RETRY_MS = 500
NOTICE_MS = 20
_UNDECIDED = frozenset({Code.CONTROLLER_NOT_LEADER, Code.SYSTEM_ERROR})
_UNKNOWN_HERE = frozenset(
    {Code.CONTROLLER_BROKER_METADATA_NOT_EXIST, Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED}
)


class Membership:
    """Decides one broker's role; `log` returns the state of its log when a heartbeat is made."""

    def __init__(
        self,
        options: MembershipOptions,
        log: Callable[[], LogState],
        *,
        broker_id: int | None = None,
        temp: Temp | None = None,
        known: Known | None = None,
    ) -> None:
        self._options = options
        self._log = log
        self.known = known or Known()
        self.stale_epoch = max(self.known.master_epoch, log().epoch)
        """Never be master again at or below this epoch: it was used before, or given back."""
        self._incarnation = self.known.incarnation or options.incarnation
        self._messages = ControllerRequests(options, self._incarnation)
        self._online = Online(options, self._messages, broker_id, temp)
        self.finder = Finder(options.controllers, options.metadata_ms)
        self.lease = Lease()
        self.jumps = Jumps()
        self._beats = Heartbeats(options, self._messages)
        self._proposals = Proposals()
        self._register = RegisterQuestion()
        self.floor = Floor(options.min_in_sync_replicas)
        self._floor_at_ms = 0
        self.view = GroupDescription()
        self.role: Switch | None = None
        """The current role; None when fenced."""
        self._switching: Switch | None = None
        self._switch_at_ms = 0
        self._asker = Asker(options.call_timeout_ms)
        self._say = Voice().say
        self._talk: Tag | None = None
        self._poll_at_ms = 0
        self._notice_at_ms = 0
        """The earliest time (ms) at which a notice triggers a poll."""
        self._old_epoch_again = False
        """Whether the controllers insist that this broker goes on under the old epoch."""
        self._conflict = False
        """Whether the controllers report that another broker has this broker's id."""
        self._void: Switch | None = None  # under way, but no longer valid
        self._wall = 0

    # What happens ----------------------------------------------------------------------------

    def start(self, now: int, wall: int) -> Effects:
        """Start; the broker is fenced until it gets a role."""
        known = self.known
        self.known = Known(self._incarnation, known.controller_term, known.master_epoch)
        effects: Effects = [] if known == self.known else [SaveKnown(self.known)]
        return effects + self.tick(now, wall)

    def tick(self, now: int, wall: int) -> Effects:
        """Return what is due; `now` is monotonic ms, `wall` is wall-clock ms."""
        self._wall = wall
        effects: Effects = self._say("missing", self.finder.problem(now))
        if self.finder.due(now):
            ask, command = self._asker.ask, self._messages.metadata()
            effects += [
                ask(Question.METADATA, command, one, now, 0) for one in self.finder.controllers
            ]
        if self.broker_id is not None:
            lease, waiting = self.lease, self.is_master and not self.lease.valid(now)
            due = self._beats.due(self.finder.controllers, now, lease, waiting=waiting)
            effects += self._beat(due, now)
        effects += self._aim(now)
        effects += self._converse(now)
        effects += self._alter(now)
        effects += self._ask_replicas(now)
        return effects

    def answered(self, tag: Tag, command: Command, now: int) -> Effects:
        """Handle a controller's answer, however late it is."""
        if self._talk == tag:
            self._talk = None
        effects: Effects = []
        if tag.kind is Question.HEARTBEAT or command.code not in _UNDECIDED:
            effects = self._by_kind(tag, command, read_answer(command), now)
        else:
            if command.code == Code.CONTROLLER_NOT_LEADER:
                self.finder.lost(tag.address, now)
            self._undecided(tag, now)
        return effects + self.tick(now, self._wall)

    def failed(self, tag: Tag, now: int, *, lost: bool) -> Effects:
        """Note a missing answer. `lost`: the connection was refused or closed, not just silent."""
        if self._talk == tag:
            self._talk = None
        if tag.kind is Question.HEARTBEAT:
            self._beats.failed(tag)
        if lost or tag.kind not in (Question.HEARTBEAT, Question.METADATA):
            self.finder.lost(tag.address, now)
        self._undecided(tag, now)
        return self.tick(now, self._wall)

    def closed(self, address: str, now: int) -> Effects:
        """Note that the connection to a controller closed."""
        self.finder.lost(address, now)
        return self.tick(now, self._wall)

    def notified(self, now: int) -> Effects:
        """Poll the controllers at once: a notice (1008) says that the role changed.

        Nothing in the notice is believed. However many notices come, there is one poll in
        `NOTICE_MS`.
        """
        at_ms = max(now, self._notice_at_ms)
        self._poll_at_ms = min(self._poll_at_ms, at_ms)
        if at_ms == now:
            self._notice_at_ms = now + NOTICE_MS
            self._beats.all_due(now)  # the leading controller answers one of them
        return self.tick(now, self._wall)

    def propose(self, proposal: Proposal, now: int) -> Effects:
        """Propose another sync-state set to the controllers, as the master."""
        return [*failures(self._proposals.open_proposal(proposal)), *self.tick(now, self._wall)]

    def want_replicas(self, now: int) -> Effects:
        """Ask the controllers which ids are registered now (the answer is `ReplicasTold`)."""
        self._register.want(self._asker.newest)
        return self.tick(now, self._wall)

    def want_floor(self, floor: int, now: int) -> Effects:
        """Ask the controllers to record minInSyncReplicas (the answer is `FloorChanged`)."""
        self.floor.wanted = floor
        self._floor_at_ms = now
        return self.tick(now, self._wall)

    def role_done(self, switch: Switch, now: int, *, ok: bool, problem: str = "") -> Effects:
        """Note that the role switch was carried out (`ok`), or failed with `problem`."""
        self._switching = None
        if self._void is switch:
            self._void, ok, problem = None, False, "the controllers have forgotten this broker"
        if not ok:
            self.role = None
            self._switch_at_ms = now + SWITCH_RETRY_MS
            text = f"cannot take the role given at epoch {switch.epoch}: {problem}"
            return [Fence(problem), *self._say("switch", text), *self.tick(now, self._wall)]
        self.role = switch
        effects = self._say("switch", "") + self._record(switch.epoch)
        if isinstance(switch, BecomeMaster):
            self.lease.begin()
            effects += self._newer_set()
        self._beats.all_due(now)
        return effects + self.tick(now, self._wall)

    def look_at_clocks(self, now: int, wall: int) -> bool:
        """Drop the lease if the monotonic clock missed time; return whether it did."""
        if is_jump := self.jumps.look(now, wall):
            self.clocks_jumped(now)
        return is_jump

    def clocks_jumped(self, now: int) -> None:
        """Drop the lease, and request a new one at once: `jumps` has found a jump."""
        self.lease.drop(now)
        self._beats.all_due(now)

    def ha_address_found(self, master_address: str, ha_address: str, now: int) -> Effects:
        """Note the master's replication address, from a name server or from the master."""
        if self.view.master_address == master_address and not self.view.ha_address:
            self.view = merge(self.view, GroupDescription(ha_address=ha_address))
        return self.tick(now, self._wall)

    def hold_span_ms(self) -> int:
        """See `Lease.hold_span_ms`; 0 for a broker that is not master or is deposed."""
        return self.lease.hold_span_ms if self.is_master and self.view.epoch == self._epoch else 0

    def resign(self, now: int) -> Effects:
        """Resign before a stop, so that another broker can become master at once."""
        return self._step_down("this broker stops", now) if self.is_master else []

    # Figures ---------------------------------------------------------------------------------

    @property
    def broker_id(self) -> int | None:
        return self._online.broker_id

    @property
    def is_master(self) -> bool:
        return isinstance(self.role, BecomeMaster)

    def next_deadline(self) -> int:
        """Return when `tick` has something to do (monotonic ms)."""
        wanted = [self.finder.due_at_ms]
        if self.broker_id is not None:
            wanted.append(self._beats.due_at_ms)
        if self._target() is not None:
            wanted.append(self._switch_at_ms)
        if self._talk is None and self.finder.active is not None:
            asking = not self._online.done or self._wants_election()
            wanted.append(self._online.at_ms if asking else self._poll_at_ms)
            if self._online.done and not self.floor.is_known:
                wanted.append(self._floor_at_ms)
        for ask_at in (self._proposals.next_at_ms, self._register.next_at_ms):
            if ask_at is not None and self.finder.active is not None:
                wanted.append(ask_at)
        return min(wanted)

    # Questions -------------------------------------------------------------------------------

    def _wants_election(self) -> bool:
        if self._options.learner or self._switching is not None or self._conflict:
            return False
        view = self.view
        if view.master_id is None:
            return True
        return view.master_id == self.broker_id and self._is_stale(view.epoch)

    def _is_stale(self, epoch: int) -> bool:
        """Return whether `epoch` may be from before this process registered (S19)."""
        if self.is_master or (epoch > self.stale_epoch and self._online.done):
            return False
        return not (self._old_epoch_again and self._options.clean_start)

    def _converse(self, now: int) -> Effects:
        """Ask the active controller the first open question, one at a time.

        An open question to another controller does not delay this one.
        """
        active = self.finder.active
        if active is None or (self._talk is not None and self._talk.address == active):
            return []
        question = self._online.question(now, self._wall, self.floor.wanted)
        if question is not None:
            return self._talk_about(*question, active, now)
        if not self._online.done:
            return []
        if not self.floor.is_known and now >= self._floor_at_ms:
            self._floor_at_ms = now + FLOOR_RETRY_MS
            assert self.broker_id is not None
            command = self._messages.register(self.broker_id, self._wall, self.floor.wanted)
            return self._talk_about(Question.FLOOR, command, active, now)
        if self._wants_election() and now >= self._online.at_ms:
            self._online.wait(now)
            assert self.broker_id is not None
            # A heartbeat first: an election compares the logs by the heartbeats.
            beats = [] if self._beats.has_sent_to(active) else self._beat([active], now)
            command = self._messages.elect(self.broker_id, self._wall)
            return beats + self._talk_about(Question.ELECT, command, active, now)
        if now < self._poll_at_ms:
            return []
        self._poll_at_ms = now + self._options.poll_ms
        return self._talk_about(Question.REPLICA_INFO, self._messages.replica_info(), active, now)

    def _by_kind(self, tag: Tag, command: Command, answer: ControllerAnswer, now: int) -> Effects:
        online = self._online
        effects: Effects = []
        match tag.kind:
            case Question.METADATA:
                return self._on_metadata(tag, answer, now)
            case Question.HEARTBEAT:
                return self._on_heartbeat(tag, command, answer, now)
            case Question.ALTER:
                return self._on_alter(tag, command, answer, now)
            case Question.ELECT:
                return self._on_elected(command, answer, now)
            case Question.REPLICA_INFO:
                return self._on_replica_info(command, answer, now)
            case Question.REPLICAS:
                ids = self._register.answered(tag.number, command, self._options.broker, now)
                return [] if ids is None else [ReplicasTold(ids)]
            case Question.FLOOR:
                return self._on_floor(tag, command)
            case Question.NEXT_ID:
                effects = online.on_next_id(command, answer, now, self._wall)
            case Question.APPLY_ID:
                effects = online.on_applied(command, now)
            case _:
                effects = self._on_floor(tag, command)
                if online.on_registered(command, now, self._wall):
                    effects += [] if self._options.clean_start else [UncleanRecorded()]
                    self._poll_at_ms = now
                    self._beats.all_due(now)  # an election needs their log state
                    self.view = unelected(self.view, None if self.is_master else self.broker_id)
                    effects += self._see_in(command, answer, now)
        return effects + self._say("online", online.problem)

    def _on_floor(self, tag: Tag, command: Command) -> Effects:
        if command.code != Code.SUCCESS:
            return []
        before = self.floor.in_use
        self.floor.recorded(tag.number)
        changed = self.floor.in_use != before
        return [FloorChanged(self.floor.in_use)] if changed else []

    def _on_metadata(self, tag: Tag, answer: ControllerAnswer, now: int) -> Effects:
        address = tag.address if answer.isLeader else answer.controllerLeaderAddress
        if not address:
            self.finder.lost(tag.address, now)
            return []
        return self._found(address, answer.controllerTerm or 0, now)

    def _found(self, address: str, term: int, now: int) -> Effects:
        if not self.finder.leader(address, term, now):
            return []
        if not self._online.done:
            self._online.quick(now)
        self._poll_at_ms = now
        self._proposals.due_at_ms = now
        return self._say("controller", f"the active controller is {address}", problem=False)

    def _on_elected(self, command: Command, answer: ControllerAnswer, now: int) -> Effects:
        if command.code in _UNKNOWN_HERE:
            return self._forgotten(now)
        if command.code == Code.SUCCESS:
            self._online.quick(now)
        elif command.code != Code.CONTROLLER_MASTER_STILL_EXIST:
            return self._say("elect", f"no election: {command.code} {command.remark or ''}")
        elif answer.masterBrokerId == self.broker_id and self.lease.supported is False:
            # RocketMQ's controllers name the recorded master again instead of a new epoch.
            self._old_epoch_again = answer.masterEpoch is not None
            if not self._options.clean_start:
                text = "after a crash that may have lost messages the old epoch cannot go on"
                return self._say("elect", f"{text}; elect another replica")
        return self._say("elect", "") + self._see_in(command, answer, now)

    def _on_replica_info(self, command: Command, answer: ControllerAnswer, now: int) -> Effects:
        if command.code in _UNKNOWN_HERE:
            return self._forgotten(now)
        return self._see_in(command, answer, now) if command.code == Code.SUCCESS else []

    def _forgotten(self, now: int) -> Effects:
        """Leave the old epoch, then register: the controllers lost this broker's entry (ADR
        0044)."""
        if not self._online.forgotten(now) or self.lease.supported is False:
            return []
        view, self._void = self.view, self._switching
        if view.master_id == self.broker_id:
            self.stale_epoch = max(self.stale_epoch, view.epoch)
        self.view = GroupDescription(epoch=view.epoch, set_epoch=view.set_epoch, term=view.term)
        return [] if self.role is None else self._fence("the controllers know this broker no more")

    def _undecided(self, tag: Tag, now: int) -> None:
        """Repeat a question without an answer; the controller may have carried it out."""
        if tag.kind is Question.ALTER:
            self._proposals.again(tag.number, now)
        elif tag.kind is Question.REPLICAS:
            self._register.again(now)
        elif tag.kind is Question.REPLICA_INFO:
            self._poll_at_ms = min(self._poll_at_ms, now + PAUSE_MAX_MS)
        elif tag.kind not in (Question.METADATA, Question.HEARTBEAT):
            self._online.wait(now)

    # Roles -----------------------------------------------------------------------------------

    def _see_in(self, command: Command, answer: ControllerAnswer, now: int) -> Effects:
        view = read_view(command, answer)
        return self._see(view, now) if view else []

    def _see(self, view: GroupDescription, now: int) -> Effects:
        """Act on a description of the group unless it is out of date."""
        present = self.view
        if is_old(view, present, self.known):
            return []
        if view.epoch > present.epoch or present.master_id is None:
            self.view = view
            self._switch_at_ms = now
            self._poll_at_ms = now if view.members is None else self._poll_at_ms
            return []
        if view.members is None and view.set_epoch > present.set_epoch:
            self._poll_at_ms = now
        self.view = merge(present, view)
        return self._newer_set()

    def _newer_set(self) -> Effects:
        """Adopt, as master, a set newer than the own one; older proposals are closed."""
        role, view = self.role, self.view
        if not isinstance(role, BecomeMaster) or role.epoch != view.epoch or view.members is None:
            return []
        if view.set_epoch <= role.set_epoch:
            return []
        self.role = BecomeMaster(role.epoch, view.members, view.set_epoch)
        self._proposals.set_committed(view.set_epoch)
        return [SetCommitted(view.members, view.set_epoch)]

    def _target(self) -> Switch | None:
        """Return the role to switch to; None when no switch is needed, or not yet possible."""
        view = self.view
        if self.broker_id is None or self._conflict or self._switching is not None:
            return None
        if view.master_id == self.broker_id and self._is_stale(view.epoch):
            return None
        wanted = role_in(view, self.broker_id, learner=self._options.learner)
        return None if wanted is None or same_role(self.role, wanted) else wanted

    def _aim(self, now: int) -> Effects:
        """Start the switch to the role that the view gives; one switch at a time."""
        effects: Effects = []
        if self.is_master and self.view.epoch > self._epoch:
            # Deposed: acknowledge nothing more, even if the next role cannot be taken yet.
            effects = self._fence(f"epoch {self.view.epoch} has begun")
        wanted = self._target()
        if wanted is None or now < self._switch_at_ms:
            return effects
        self._switching = wanted
        return [*effects, wanted]

    def _fence(self, reason: str) -> Effects:
        self.role = None
        self.lease.give_back()
        return [Fence(reason), *failures(self._proposals.drop())]

    def _record(self, epoch: int) -> Effects:
        """Record the epoch that was acted on, after acting on it."""
        known = Known(self._incarnation, self.view.term or self.known.controller_term, epoch)
        if known == self.known or epoch < self.known.master_epoch:
            return []
        self.known = known
        return [SaveKnown(known)]

    # Heartbeats and the lease ----------------------------------------------------------------

    def _beat(self, addresses: Iterable[str], now: int, *, resign: bool = False) -> Effects:
        tags = [
            self._asker.tag(Question.HEARTBEAT, address, now, self._epoch) for address in addresses
        ]
        own_id, log = self.broker_id or 0, self._log()
        return [self._beats.make(tag, own_id, log, resign=resign) for tag in tags]

    def _step_down(self, reason: str, now: int) -> Effects:
        """Fence, and tell the controllers that nothing more is acknowledged at this epoch."""
        self.stale_epoch = max(self.stale_epoch, self.view.epoch)
        self._old_epoch_again = False
        return self._fence(reason) + self._beat(self.finder.controllers, now, resign=True)

    def _on_heartbeat(
        self, tag: Tag, command: Command, answer: ControllerAnswer, now: int
    ) -> Effects:
        if command.code != Code.SUCCESS:
            self._beats.failed(tag)
            return self._on_refused_beat(tag, command, now)
        self._beats.answered(tag, ours=answer.isLeader is not None, now=now)
        if answer.isLeader is None:
            if tag.address == self.finder.active:
                self.lease.is_supported(False)
            return []
        if not answer.isLeader:
            if tag.address == self.finder.active:
                self.finder.lost(tag.address, now)
            elif self.finder.active is None and answer.controllerLeaderAddress:
                return self._found(answer.controllerLeaderAddress, 0, now)
            return []
        effects = self._found(tag.address, answer.controllerTerm or 0, now)
        if tag.address != self.finder.active:
            return effects  # a controller that no longer leads and does not know it
        self._conflict = False
        effects += self._say("heartbeat", "") + self._see_in(command, answer, now)
        self._apply_lease(tag, answer)
        if answer.stepDown and self.is_master and tag.epoch == self.view.epoch:
            effects += self._step_down("the controller asks this master to step down", now)
        return effects

    def _on_refused_beat(self, tag: Tag, command: Command, now: int) -> Effects:
        if tag.address != self.finder.active:
            return []
        if command.code in _UNKNOWN_HERE and not self._online.done:
            return []  # expected: its registration is under way
        effects = self._forgotten(now) if command.code in _UNKNOWN_HERE else []
        if command.code == Code.CONTROLLER_BROKER_ID_INVALID:
            self._conflict = True
            effects = self._fence("another broker has this broker's id")
        text = f"{tag.address} refuses heartbeats: {command.code} {command.remark or ''}"
        return effects + self._say("heartbeat", text)

    def _apply_lease(self, tag: Tag, answer: ControllerAnswer) -> None:
        self.lease.is_supported(bool(answer.leaseSupported))
        ours = self.is_master and answer.masterBrokerId == self.broker_id
        if answer.leaseMillis is None or not ours or answer.stepDown:
            return
        if answer.masterEpoch == tag.epoch == self._epoch == self.view.epoch:
            may_hold = bool(answer.wholeSetMayHold)
            self.lease.granted(tag.sent_at_ms, answer.leaseMillis, may_hold=may_hold)

    # The sync-state set ----------------------------------------------------------------------

    def _alter(self, now: int) -> Effects:
        proposal, active = self._proposals.due(now), self.finder.active
        if proposal is None or active is None or self.broker_id is None:
            return []
        if not self.is_master or proposal.epoch != self._epoch:
            return failures(self._proposals.drop())
        command = self._messages.alter(self.broker_id, proposal, self._wall)
        ask = self._asker.ask(Question.ALTER, command, active, now, proposal.epoch)
        self._proposals.sent(ask.tag.number)
        return [ask]

    def _ask_replicas(self, now: int) -> Effects:
        active = self.finder.active
        if active is None or not self._register.is_due(now):
            return []
        self._register.asked(now, self._options.call_timeout_ms)
        return [
            self._asker.ask(Question.REPLICAS, self._messages.replicas(), active, now, self._epoch)
        ]

    def _on_alter(self, tag: Tag, command: Command, answer: ControllerAnswer, now: int) -> Effects:
        once = self._proposals.asked_once
        proposal = self._proposals.answered(tag.number)
        if proposal is None:
            return []
        if command.code != Code.SUCCESS:
            # Refused, or carried out by an attempt whose answer was lost: the poll shows which.
            self._poll_at_ms = now
            text = f"the sync-state set stays as it is: {command.code} {command.remark or ''}"
            return [ProposalFailed(proposal, once), *self._say("alter", text)]
        set_epoch = answer.newSyncStateSetEpoch or proposal.set_epoch + 1
        if set_epoch <= proposal.set_epoch:
            # The set already is as proposed and was not changed: this closes no older proposal.
            return [ProposalFailed(proposal), *self._say("alter", "")]
        members, term = proposal.members, self.view.term
        committed = GroupDescription(tag.epoch, self.broker_id, "", None, set_epoch, members, term)
        return self._say("alter", "") + self._see(committed, now)

    # Small things ----------------------------------------------------------------------------

    def _talk_about(self, kind: Question, command: Command, address: str, now: int) -> Effects:
        ask = self._asker.ask(kind, command, address, now, self._epoch)
        self._talk = ask.tag
        if kind in (Question.REGISTER, Question.FLOOR):
            self.floor.asked(ask.tag.number)
        return [ask]

    @property
    def _epoch(self) -> int:
        return self.role.epoch if self.role else 0
