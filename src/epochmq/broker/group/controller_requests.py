"""Builds the requests that a broker sends to controllers, and reads their answers.

The headers are those of RocketMQ 5.1.1 and later, plus fields of EpochMQ that a Java controller
ignores. All kinds of answers describe the group with the same field names, so one reader serves
them all.
"""

from dataclasses import dataclass, replace

from epochmq.base.errors import HeaderError
from epochmq.base.limits import EPOCH_MAX
from epochmq.broker.group.broker_identity import Known, Temp
from epochmq.broker.group.member_options import LogState, MembershipOptions
from epochmq.broker.group.membership_effects import BecomeFollower, BecomeMaster, Proposal, Switch
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.controller_bodies import SyncStateSet
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import I32, I64, Header, decode_header
from epochmq.wire.headers.controller_headers import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    ControllerHeartbeatHeader,
    ElectMasterHeader,
    GetNextBrokerIdHeader,
    GetReplicaInfoHeader,
    RegisterBrokerToControllerHeader,
)


class ControllerAnswer(Header):
    """All fields that any answer of a controller may contain."""

    masterBrokerId: I64 | None = None
    masterAddress: str | None = None
    masterHaAddress: str | None = None
    masterEpoch: I32 | None = None
    uncleanEpoch: I32 | None = None
    syncStateSetEpoch: I32 | None = None
    newSyncStateSetEpoch: I32 | None = None
    nextBrokerId: I64 | None = None
    controllerTerm: I64 | None = None
    controllerLeaderAddress: str | None = None
    isLeader: bool | None = None
    leaseSupported: bool | None = None
    leaseMillis: I64 | None = None
    stepDown: bool | None = None
    wholeSetMayHold: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """The group as one controller described it: epoch, master, and sync-state set."""

    epoch: int = 0
    master_id: int | None = None
    master_address: str = ""
    ha_address: str | None = None
    set_epoch: int = 0
    members: frozenset[int] | None = None
    """None when the answer did not contain the sync-state set."""
    term: int = 0
    """The controller's term; 0 when the answer did not contain it."""
    unclean_epoch: int = 0
    """The last epoch that an unclean election began; 0 when none is known."""


def read_answer(command: Command) -> ControllerAnswer:
    """Return the header of an answer; all fields are None when it cannot be decoded."""
    try:
        return decode_header(ControllerAnswer, command.ext)
    except HeaderError:
        return ControllerAnswer()


def read_view(command: Command, answer: ControllerAnswer) -> GroupDescription | None:
    """Return the group that an answer describes; None when it has no epoch, or an invalid one."""
    if answer.masterEpoch is None or not 0 <= answer.masterEpoch <= EPOCH_MAX:
        return None
    members, set_epoch = None, answer.syncStateSetEpoch
    if len(command.body):
        try:
            body = decode_body(SyncStateSet, command.body)
        except HeaderError:
            return None
        members = frozenset(body.sync_state_set)
        set_epoch = body.sync_state_set_epoch if set_epoch is None else set_epoch
    return GroupDescription(
        epoch=answer.masterEpoch,
        master_id=answer.masterBrokerId if (answer.masterBrokerId or 0) > 0 else None,
        master_address=answer.masterAddress or "",
        ha_address=answer.masterHaAddress or None,
        set_epoch=set_epoch or 0,
        members=members,
        term=answer.controllerTerm or 0,
        unclean_epoch=answer.uncleanEpoch or 0,
    )


class ControllerRequests:
    """Builds the requests of one broker."""

    def __init__(self, options: MembershipOptions, incarnation: str) -> None:
        self._options = options
        self._incarnation = incarnation

    def metadata(self) -> Command:
        return request(RequestCode.CONTROLLER_GET_METADATA_INFO)

    def next_id(self) -> Command:
        header = GetNextBrokerIdHeader(self._options.cluster, self._options.broker)
        return request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)

    def apply_id(self, temp: Temp) -> Command:
        options = self._options
        header = ApplyBrokerIdHeader(
            clusterName=options.cluster,
            brokerName=options.broker,
            appliedBrokerId=temp.broker_id,
            registerCheckCode=temp.check_code,
            incarnation=self._incarnation,
            learner=options.learner,
        )
        return request(RequestCode.CONTROLLER_APPLY_BROKER_ID, header)

    def register(self, broker_id: int, wall: int, floor: int) -> Command:
        options = self._options
        header = RegisterBrokerToControllerHeader(
            clusterName=options.cluster,
            brokerName=options.broker,
            brokerId=broker_id,
            brokerAddress=options.address,
            invokeTime=wall,
            haAddress=options.ha_address,
            incarnation=self._incarnation,
            session=options.session,
            cleanStart=options.clean_start,
            learner=options.learner,
            minInSyncReplicas=floor,
        )
        return request(RequestCode.CONTROLLER_REGISTER_BROKER, header)

    def elect(self, broker_id: int, wall: int) -> Command:
        header = ElectMasterHeader(
            clusterName=self._options.cluster,
            brokerName=self._options.broker,
            brokerId=broker_id,
            invokeTime=wall,
        )
        return request(RequestCode.CONTROLLER_ELECT_MASTER, header)

    def replica_info(self) -> Command:
        header = GetReplicaInfoHeader(self._options.broker, self._options.cluster)
        return request(RequestCode.CONTROLLER_GET_REPLICA_INFO, header)

    def replicas(self) -> Command:
        """Ask for the group's replicas. EpochMQ's controllers also read the cluster name, because
        two clusters may have a group of the same name."""
        options = self._options
        body = encode_body([options.broker])
        ext = {"clusterName": options.cluster}
        return request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, ext, body)

    def alter(self, broker_id: int, proposal: Proposal, wall: int) -> Command:
        header = AlterSyncStateSetHeader(
            brokerName=self._options.broker,
            masterBrokerId=broker_id,
            masterEpoch=proposal.epoch,
            invokeTime=wall,
            clusterName=self._options.cluster,
            incarnation=self._incarnation,
        )
        body = encode_body(SyncStateSet(sorted(proposal.members), proposal.set_epoch))
        return request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)

    def heartbeat(
        self, broker_id: int, log: LogState, *, plain: bool, resign: bool = False
    ) -> Command:
        """Build a heartbeat: one-way for a controller without leases (`plain`), otherwise a
        request."""
        options = self._options
        header = ControllerHeartbeatHeader(
            clusterName=options.cluster,
            brokerAddr=options.address,
            brokerName=options.broker,
            brokerId=broker_id,
            epoch=log.epoch,
            maxOffset=log.max_offset,
            confirmOffset=log.confirm_offset,
            heartbeatTimeoutMills=options.dead_after_ms,
            electionPriority=options.priority,
        )
        if not plain:
            header.leaseWanted = True
            header.incarnation = self._incarnation
            header.session = options.session
            header.learner = options.learner
            header.cleanStart = options.clean_start
            header.haAddress = options.ha_address
            header.resign = resign or None
        return request(RequestCode.BROKER_HEARTBEAT, header, oneway=plain)


# Views ---------------------------------------------------------------------------------------
# Decides which of two descriptions of the group is newer, and which role a description gives.


def is_old(view: GroupDescription, present: GroupDescription, known: Known) -> bool:
    """Return whether `view` is out of date: its epoch, or its controller's term, is over.

    The epoch and term that this broker acted on before a restart count too. A wiped controller
    starts its terms again; its answers count again as soon as it names a higher epoch.
    """
    if view.epoch < max(present.epoch, known.master_epoch):
        return True
    if present.master_id is None and view.epoch == present.epoch:
        if view.set_epoch < present.set_epoch:
            return True  # from before the end of that master's process
    return view.epoch == known.master_epoch and 0 < view.term < known.controller_term


def merge(present: GroupDescription, view: GroupDescription) -> GroupDescription:
    """Return what is known of one epoch after `view`: only set, addresses and term change within
    it."""
    known = present.set_epoch if present.members is not None else present.set_epoch - 1
    newer = view.members is not None and view.set_epoch > known
    return GroupDescription(
        epoch=present.epoch,
        master_id=present.master_id,
        master_address=view.master_address or present.master_address,
        ha_address=view.ha_address or present.ha_address,
        set_epoch=view.set_epoch if newer else present.set_epoch,
        members=view.members if newer else present.members,
        term=max(view.term, present.term),
        unclean_epoch=max(view.unclean_epoch, present.unclean_epoch),
    )


def unelected(view: GroupDescription, broker_id: int | None) -> GroupDescription:
    """Return `view` without this broker as master: its earlier process was elected (S19).

    A broker that is master now must stay master, so its caller passes None as `broker_id`.
    """
    if broker_id is None or view.master_id != broker_id:
        return view
    return replace(view, master_id=None)


def role_in(view: GroupDescription, broker_id: int, *, learner: bool) -> Switch | None:
    """Return the role that `view` gives to the broker with this id; None while it is undecided."""
    if view.master_id is None:
        return None
    if view.master_id != broker_id:
        return BecomeFollower(
            view.epoch,
            view.master_id,
            view.master_address,
            view.ha_address,
            learner,
            unclean_epoch=view.unclean_epoch,
        )
    if view.members is None:
        return None
    return BecomeMaster(view.epoch, view.members, view.set_epoch)


def same_role(have: Switch | None, wanted: Switch) -> bool:
    """Return whether no switch is needed; a changed set is not a change of role."""
    if isinstance(wanted, BecomeMaster):
        return isinstance(have, BecomeMaster) and have.epoch == wanted.epoch
    return have == wanted
