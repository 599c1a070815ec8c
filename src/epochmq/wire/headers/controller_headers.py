"""Headers of requests to controllers, as in RocketMQ 5.1.1 and later, with EpochMQ's own fields.

The headers of RocketMQ 5.0 are at the end of this module. Fields "of EpochMQ" are optional: a
RocketMQ peer neither sends nor needs them. `incarnation` is a random text that is made with the
identity file of a broker; `session` is made at each start of the process.
"""

from epochmq.wire.header import I32, I64, Header


class AlterSyncStateSetHeader(Header):
    """CONTROLLER_ALTER_SYNC_STATE_SET 1001; the body is SyncStateSet."""

    brokerName: str
    masterBrokerId: I64
    masterEpoch: I32
    invokeTime: I64 | None = None
    clusterName: str | None = None
    """Of EpochMQ, as `incarnation`."""
    incarnation: str | None = None


class AlterSyncStateSetResponseHeader(Header):
    """Answer to 1001."""

    newSyncStateSetEpoch: I32


class ElectMasterHeader(Header):
    """CONTROLLER_ELECT_MASTER 1002; with `brokerId` -1 the controller chooses.

    `uncleanElect` is of EpochMQ: the operator allows a master from outside the sync-state set.
    """

    clusterName: str = ""
    brokerName: str = ""
    brokerId: I64 = -1
    designateElect: bool = False
    invokeTime: I64 | None = None
    uncleanElect: bool | None = None


class ElectMasterResponseHeader(Header):
    """Answer to 1002; `uncleanEpoch` is of EpochMQ."""

    masterBrokerId: I64 | None = None
    masterAddress: str | None = None
    masterEpoch: I32 | None = None
    syncStateSetEpoch: I32 | None = None
    uncleanEpoch: I32 | None = None


class RegisterBrokerToControllerHeader(Header):
    """CONTROLLER_REGISTER_BROKER 1003."""

    clusterName: str
    brokerName: str
    brokerId: I64
    brokerAddress: str
    invokeTime: I64 | None = None
    haAddress: str | None = None
    """Of EpochMQ, as all fields below."""
    incarnation: str | None = None
    session: str | None = None
    cleanStart: bool | None = None
    """False: the process found that the process before it may have lost data that was
    not synced."""
    learner: bool | None = None
    minInSyncReplicas: I32 | None = None
    """With it the broker promises that, as a master with a smaller sync-state set, it neither
    acknowledges nor confirms. Members that leave such a set can still be elected (KIP-966)."""


class RegisterBrokerToControllerResponseHeader(Header):
    """Answer to 1003; the body is SyncStateSet. `masterHaAddress` and `uncleanEpoch` are of
    EpochMQ.
    """

    clusterName: str | None = None
    brokerName: str | None = None
    masterBrokerId: I64 | None = None
    masterAddress: str | None = None
    masterEpoch: I32 | None = None
    syncStateSetEpoch: I32 | None = None
    masterHaAddress: str | None = None
    uncleanEpoch: I32 | None = None


class GetReplicaInfoHeader(Header):
    """CONTROLLER_GET_REPLICA_INFO 1004; `clusterName` is of EpochMQ."""

    brokerName: str
    clusterName: str | None = None


class GetReplicaInfoResponseHeader(Header):
    """Answer to 1004; the body is SyncStateSet. `masterHaAddress` and `uncleanEpoch` are of
    EpochMQ.
    """

    masterBrokerId: I64 | None = None
    masterAddress: str | None = None
    masterEpoch: I32 | None = None
    masterHaAddress: str | None = None
    uncleanEpoch: I32 | None = None


class GetMetaDataResponseHeader(Header):
    """Answer to CONTROLLER_GET_METADATA_INFO 1005."""

    group: str | None = None
    controllerLeaderId: str | None = None
    controllerLeaderAddress: str | None = None
    isLeader: bool = False
    peers: str | None = None


class NotifyBrokerRoleChangedHeader(Header):
    """NOTIFY_BROKER_ROLE_CHANGED 1008 (controller to broker); the body is SyncStateSet.

    `brokerId`, which 5.0 reads, is the id of the receiver, or 0 if it is the new master. The names
    and the HA address are of EpochMQ.
    """

    masterAddress: str | None = None
    masterEpoch: I32 | None = None
    syncStateSetEpoch: I32 | None = None
    masterBrokerId: I64 | None = None
    brokerId: I64 | None = None
    clusterName: str | None = None
    brokerName: str | None = None
    masterHaAddress: str | None = None


class CleanBrokerDataHeader(Header):
    """CLEAN_BROKER_DATA 1011; `brokerControllerIdsToClean` holds ids separated by `;`."""

    brokerName: str
    clusterName: str | None = None
    brokerControllerIdsToClean: str | None = None
    isCleanLivingBroker: bool = False
    invokeTime: I64 | None = None


class GetNextBrokerIdHeader(Header):
    """CONTROLLER_GET_NEXT_BROKER_ID 1012."""

    clusterName: str
    brokerName: str


class GetNextBrokerIdResponseHeader(Header):
    """Answer to 1012."""

    clusterName: str | None = None
    brokerName: str | None = None
    nextBrokerId: I64 | None = None


class ApplyBrokerIdHeader(Header):
    """CONTROLLER_APPLY_BROKER_ID 1013."""

    clusterName: str
    brokerName: str
    appliedBrokerId: I64
    registerCheckCode: str
    incarnation: str | None = None
    """Of EpochMQ, as `learner`."""
    learner: bool | None = None


class ApplyBrokerIdResponseHeader(Header):
    """Answer to 1013."""

    clusterName: str | None = None
    brokerName: str | None = None


class ControllerHeartbeatHeader(Header):
    """BROKER_HEARTBEAT 904, as controllers read it; 5.0's brokers send no `brokerId`.

    `epoch` is the last epoch of the epoch file, `maxOffset` the end of the log. The fields from
    `leaseWanted` on are of EpochMQ; a request with them is answered.
    """

    clusterName: str
    brokerAddr: str
    brokerName: str
    brokerId: I64 | None = None
    epoch: I32 | None = None
    maxOffset: I64 | None = None
    confirmOffset: I64 | None = None
    heartbeatTimeoutMills: I64 | None = None
    electionPriority: I32 | None = None
    leaseWanted: bool | None = None
    incarnation: str | None = None
    session: str | None = None
    learner: bool | None = None
    cleanStart: bool | None = None
    haAddress: str | None = None
    resign: bool | None = None
    """The sender does not acknowledge any more, so another master can be elected at once."""


class ControllerHeartbeatResponseHeader(Header):
    """Answer to 904 for EpochMQ's brokers: the lease, and the group as the leader knows it.

    Attributes:
        leaseMillis: length of the write lease in milliseconds, counted from before the heartbeat
            was sent. Only the recorded master gets one, at the epoch that it reported.
        stepDown: asks the broker to fence itself and to `resign`.
        wholeSetMayHold: sent with a lease. After its end the master may go on while the whole
            sync-state set confirms, because no replica outside of the set will be elected.
        uncleanEpoch: the last epoch that began with an unclean election, if any.
    """

    isLeader: bool = False
    leaseSupported: bool = True
    controllerLeaderAddress: str | None = None
    controllerTerm: I64 | None = None
    leaseMillis: I64 | None = None
    masterEpoch: I32 | None = None
    masterBrokerId: I64 | None = None
    masterAddress: str | None = None
    masterHaAddress: str | None = None
    syncStateSetEpoch: I32 | None = None
    stepDown: bool | None = None
    wholeSetMayHold: bool | None = None
    uncleanEpoch: I32 | None = None


# Controller v50 headers ----------------------------------------------------------------------
# Headers of RocketMQ 5.0 and 5.1.0, where the address of a replica identifies it.
#
# The request codes are the same. Requests that name a replica (1001 to 1004, 1011) and their
# answers have other fields.


class AlterSyncStateSetHeaderV50(Header):
    """CONTROLLER_ALTER_SYNC_STATE_SET 1001; the body is a SyncStateSet of addresses."""

    brokerName: str
    masterAddress: str
    masterEpoch: I32


class ElectMasterHeaderV50(Header):
    """CONTROLLER_ELECT_MASTER 1002, sent by operators only; names the new master."""

    clusterName: str
    brokerName: str
    brokerAddress: str


class ElectMasterResponseHeaderV50(Header):
    """Answer to 1002; the body is a BrokerMemberGroup."""

    newMasterAddress: str | None = None
    masterEpoch: I32 | None = None
    syncStateSetEpoch: I32 | None = None


class RegisterBrokerHeaderV50(Header):
    """CONTROLLER_REGISTER_BROKER 1003: asks for a broker id, and elects the first master."""

    clusterName: str
    brokerName: str
    brokerAddress: str
    epoch: I32 | None = None
    maxOffset: I64 | None = None
    heartbeatTimeoutMillis: I64 | None = None
    electionPriority: I32 | None = None
    confirmOffset: I64 | None = None


class RegisterBrokerResponseHeaderV50(Header):
    """Answer to 1003. `brokerId` is 0 only if this request made the caller the master."""

    masterAddress: str = ""
    masterEpoch: I32 = 0
    syncStateSetEpoch: I32 = 0
    brokerId: I64 = -1


class GetReplicaInfoHeaderV50(Header):
    """CONTROLLER_GET_REPLICA_INFO 1004."""

    brokerName: str
    brokerAddress: str


class GetReplicaInfoResponseHeaderV50(Header):
    """Answer to 1004: `brokerId` is the caller's own id, -1 if its address is not known."""

    masterAddress: str = ""
    masterEpoch: I32 = 0
    brokerId: I64 = -1


class CleanBrokerDataHeaderV50(Header):
    """CLEAN_BROKER_DATA 1011; `brokerAddress` holds addresses separated by `;`."""

    brokerName: str
    clusterName: str | None = None
    brokerAddress: str | None = None
    isCleanLivingBroker: bool = False
