"""Headers of the controller family as 5.0 and 5.1.0 have them: a replica is known by its address.

They differ from `controller`'s in the requests that name a replica (facts of section 3 and 4 of the
protocol: 1001 to 1004, 1011) and in the answers to them; the codes of requests are the same.
"""

from epochmq.wire.headers.header import I32, I64, Header


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
