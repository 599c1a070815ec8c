"""What the membership core must know of the broker, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipOptions:
    cluster: str
    broker: str
    address: str
    """Where clients reach this broker."""
    ha_address: str
    """Where replicas reach it."""
    controllers: tuple[str, ...]
    heartbeat_ms: int = 1000
    heartbeat_timeout_ms: int = 1000
    dead_after_ms: int = 10_000
    """controllerHeartBeatTimeoutMills: what controllers are told to wait for."""
    poll_ms: int = 5000
    metadata_ms: int = 10_000
    call_timeout_ms: int = 3000
    priority: int = 2**31 - 1
    min_in_sync_replicas: int = 1
    """As master of a smaller set this broker neither acknowledges nor confirms (KIP-966)."""
    learner: bool = False
    clean_start: bool = True
    incarnation: str = ""
    """Random text, used when none was kept yet."""
    session: str = ""
    """Random text of this process."""


@dataclass(frozen=True, slots=True)
class LogState:
    """What heartbeats tell of the log; offsets are byte positions."""

    epoch: int = 0
    max_offset: int = 0
    confirm_offset: int = 0
