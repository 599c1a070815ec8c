"""The requests a broker makes of controllers, and what their answers say.

Headers are those of 5.1.1 and later with fields of ours beside them, which a Java controller skips.
Answers of all kinds tell of the group with the same names, so one reader serves them all.
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
    """Every field that an answer of a controller may bring."""

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
    """The group as one controller described it."""

    epoch: int = 0
    master_id: int | None = None
    master_address: str = ""
    ha_address: str | None = None
    set_epoch: int = 0
    members: frozenset[int] | None = None
    """None when the answer did not name them."""
    term: int = 0
    """The controller's term; 0 when it did not say."""
    unclean_epoch: int = 0
    """The last epoch that an unclean election began; 0: none that is known."""


def read_answer(command: Command) -> ControllerAnswer:
    """The header of an answer; one that cannot be read says nothing."""
    try:
        return decode_header(ControllerAnswer, command.ext)
    except HeaderError:
        return ControllerAnswer()


def read_view(command: Command, answer: ControllerAnswer) -> GroupDescription | None:
    """What an answer says of the group; None when it names no epoch, or one that is none."""
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
    """Makes the requests of one broker."""

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
        """The cluster is for controllers of ours: two may have a group of one name."""
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
        """One-way for a controller without leases (`plain`), else to be answered."""
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
# Which of two descriptions of the group is the newer one, and what role it gives.


def is_old(view: GroupDescription, present: GroupDescription, known: Known) -> bool:
    """Whether `view` tells of the past: an epoch, or a controller's term, that is over.

    What was acted on before a restart counts too. A wiped controller counts its
    terms anew; it is heeded as soon as it names a higher epoch.
    """
    if view.epoch < max(present.epoch, known.master_epoch):
        return True
    if present.master_id is None and view.epoch == present.epoch:
        if view.set_epoch < present.set_epoch:
            return True  # of before that master's process ended
    return view.epoch == known.master_epoch and 0 < view.term < known.controller_term


def merge(present: GroupDescription, view: GroupDescription) -> GroupDescription:
    """What is known of one epoch after `view`: only set, addresses and term may change in it."""
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
    """`view` without this broker as master: the process before it was elected (S19).

    A broker that is master stays it; it says None.
    """
    if broker_id is None or view.master_id != broker_id:
        return view
    return replace(view, master_id=None)


def role_in(view: GroupDescription, broker_id: int, *, learner: bool) -> Switch | None:
    """What `view` makes of the broker with this id; None while that is open."""
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
    """Whether nothing needs to be switched; a changed set is no change of role."""
    if isinstance(wanted, BecomeMaster):
        return isinstance(have, BecomeMaster) and have.epoch == wanted.epoch
    return have == wanted
