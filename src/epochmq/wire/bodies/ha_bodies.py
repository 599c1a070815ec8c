"""Body of GET_BROKER_HA_STATUS 907."""

from msgspec import UNSET, field

from epochmq.wire.bodies.body import Body, MaybeText


class HAConnectionInfo(Body):
    """One slave as its master sees it; offsets are byte positions in the log."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class HAClientInfo(Body):
    """The link to the master as its slave sees it."""

    master_addr: MaybeText = UNSET
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    activated: bool = False


class HARuntimeInfo(Body):
    """Answer to 907."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionInfo] = []
    ha_client_runtime_info: HAClientInfo = field(default_factory=HAClientInfo)
