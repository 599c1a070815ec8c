"""Headers of the controller family as 5.1.1 and later have them, and what EpochMQ adds.

What 5.0 has instead stands in `controller_g1`. Fields said to be ours are optional: a RocketMQ peer
neither sends nor misses them. `incarnation` is a random text made together with the broker's
identity file, `session` one made at each start of the process.
"""

from epochmq.wire.header import I32, I64, Header


class AlterSyncStateSetHeader(Header):
    """CONTROLLER_ALTER_SYNC_STATE_SET 1001; the body is SyncStateSet."""

    brokerName: str
    masterBrokerId: I64
    masterEpoch: I32
    invokeTime: I64 | None = None
    clusterName: str | None = None
    """Ours, as the one below."""
    incarnation: str | None = None


class AlterSyncStateSetResponseHeader(Header):
    """Answer to 1001."""

    newSyncStateSetEpoch: I32


class ElectMasterHeader(Header):
    """CONTROLLER_ELECT_MASTER 1002; `brokerId` -1 leaves the choice to the controller.

    `uncleanElect` is ours: the operator's consent to a master from outside the sync-state set.
    """

    clusterName: str = ""
    brokerName: str = ""
    brokerId: I64 = -1
    designateElect: bool = False
    invokeTime: I64 | None = None
    uncleanElect: bool | None = None


class ElectMasterResponseHeader(Header):
    """Answer to 1002; `uncleanEpoch` is ours."""

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
    """Ours, as those below."""
    incarnation: str | None = None
    session: str | None = None
    cleanStart: bool | None = None
    """False: this process found that the one before it may have lost what it had not synced."""
    learner: bool | None = None
    minInSyncReplicas: I32 | None = None
    """With it the broker promises that, as master of a smaller set, it will neither acknowledge nor
    confirm. Members that leave such a set stay candidates for an election (KIP-966)."""


class RegisterBrokerToControllerResponseHeader(Header):
    """Answer to 1003; the body is SyncStateSet. `masterHaAddress` and `uncleanEpoch` are ours."""

    clusterName: str | None = None
    brokerName: str | None = None
    masterBrokerId: I64 | None = None
    masterAddress: str | None = None
    masterEpoch: I32 | None = None
    syncStateSetEpoch: I32 | None = None
    masterHaAddress: str | None = None
    uncleanEpoch: I32 | None = None


class GetReplicaInfoHeader(Header):
    """CONTROLLER_GET_REPLICA_INFO 1004; the cluster is ours."""

    brokerName: str
    clusterName: str | None = None


class GetReplicaInfoResponseHeader(Header):
    """Answer to 1004; the body is SyncStateSet. `masterHaAddress` and `uncleanEpoch` are ours."""

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

    `brokerId`, which 5.0 reads, is the recipient's, 0 for the new master; names and HA address are
    ours.
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
    """Ours, as the one below."""
    learner: bool | None = None


class ApplyBrokerIdResponseHeader(Header):
    """Answer to 1013."""

    clusterName: str | None = None
    brokerName: str | None = None


class ControllerHeartbeatHeader(Header):
    """BROKER_HEARTBEAT 904 as controllers read it; `brokerId` is absent from 5.0's brokers.

    `epoch` and `maxOffset` are the last entry of the epoch file and the end of the log. From
    `leaseWanted` on the fields are ours, and the request is a two-way one.
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
    """The sender acknowledges nothing any more: another may be elected at once."""


class ControllerHeartbeatResponseHeader(Header):
    """Answer to 904, for our brokers: the lease, and the group as the leader knows it.

    `leaseMillis` counts from the moment before the heartbeat was sent, and is given to the recorded
    master alone, at the epoch it reported. `stepDown` asks it to fence itself and to `resign`.
    `wholeSetMayHold` comes with a lease: past it the master may go on while its whole set is behind
    it, since nobody from outside of the set will be elected. `uncleanEpoch` is the last epoch that
    an unclean election began, if there was one.
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
# Headers of the controller family as 5.0 and 5.1.0 have them: a replica is known by its address.
#
# They differ from `controller`'s in the requests that name a replica (facts of section 3 and 4
# of the protocol: 1001 to 1004, 1011) and in the answers to them; the codes of requests are the
# same.


class AlterSyncStateSetHeaderV50(Header):
    """CONTROLLER_ALTER_SYNC_STATE_SET 1001; the body is a SyncStateSet of addresses."""

    brokerName: str
    masterAddress: str
    masterEpoch: I32


class ElectMasterHeaderV50(Header):
    """CONTROLLER_ELECT_MASTER 1002, from operators alone; names the wanted master."""

    clusterName: str
    brokerName: str
    brokerAddress: str


class ElectMasterResponseHeaderV50(Header):
    """Answer to 1002; the body is a BrokerMemberGroup."""

    newMasterAddress: str | None = None
    masterEpoch: I32 | None = None
    syncStateSetEpoch: I32 | None = None


class RegisterBrokerHeaderV50(Header):
    """CONTROLLER_REGISTER_BROKER 1003: asks for an id, and elects the first master."""

    clusterName: str
    brokerName: str
    brokerAddress: str
    epoch: I32 | None = None
    maxOffset: I64 | None = None
    heartbeatTimeoutMillis: I64 | None = None
    electionPriority: I32 | None = None
    confirmOffset: I64 | None = None


class RegisterBrokerResponseHeaderV50(Header):
    """Answer to 1003. `brokerId` is 0 only when this very call made the caller master."""

    masterAddress: str = ""
    masterEpoch: I32 = 0
    syncStateSetEpoch: I32 = 0
    brokerId: I64 = -1


class GetReplicaInfoHeaderV50(Header):
    """CONTROLLER_GET_REPLICA_INFO 1004."""

    brokerName: str
    brokerAddress: str


class GetReplicaInfoResponseHeaderV50(Header):
    """Answer to 1004: the caller's own number, -1 when its address is unknown."""

    masterAddress: str = ""
    masterEpoch: I32 = 0
    brokerId: I64 = -1


class CleanBrokerDataHeaderV50(Header):
    """CLEAN_BROKER_DATA 1011; `brokerAddress` holds addresses separated by `;`."""

    brokerName: str
    clusterName: str | None = None
    brokerAddress: str | None = None
    isCleanLivingBroker: bool = False
