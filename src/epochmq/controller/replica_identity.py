"""The identity of a broker, and what its requests change in the replicated state.

A broker id belongs to one incarnation (an identity file) in one session (a process). A second
living process with the same id is refused. A new process is accepted after the end of the old one.
"""

from dataclasses import dataclass

from epochmq.base import limits
from epochmq.base.errors import HeaderError, Refused
from epochmq.controller.commands import UpdateBroker
from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica, Key
from epochmq.controller.liveness import LiveProcess
from epochmq.model.names import check_shown
from epochmq.wire.codes import ResponseCode

TIMEOUT_MS_MIN = 500
TIMEOUT_MS_MAX = 300_000


@dataclass(slots=True)
class Told:
    """What a broker says about itself; empty texts and None mean that it says nothing.

    `session` is None from brokers without sessions, for which each registration counts as a new
    process. It is empty in a request that does not contain it.
    """

    broker_id: int
    address: str
    ha_address: str = ""
    incarnation: str = ""
    session: str | None = None
    clean_start: bool | None = None
    learner: bool | None = None
    floor: int | None = None


def check_names(*names: str) -> None:
    """Raise `HeaderError` unless all names have an allowed length and printable characters."""
    for name in names:
        if not 0 < len(name) <= limits.NAME_LENGTH_MAX:
            raise HeaderError(f"names and addresses have 1 to {limits.NAME_LENGTH_MAX} characters")
        check_shown(name)


def check_word(word: str) -> None:
    """Raise `HeaderError` if an optional text is too long or not printable."""
    if len(word) > limits.NAME_LENGTH_MAX:
        raise HeaderError(f"names and addresses have 1 to {limits.NAME_LENGTH_MAX} characters")
    check_shown(word)


def check_words(told: Told) -> None:
    """Check all texts that a broker says about itself, as `check_word`."""
    for word in (told.ha_address, told.incarnation, told.session or ""):
        check_word(word)


def check_id(broker_id: int) -> None:
    """Raise `Refused` (2014) for an id that is never given."""
    if not 1 <= broker_id <= limits.BROKER_ID_MAX:
        raise Refused(
            ResponseCode.CONTROLLER_BROKER_ID_INVALID,
            f"{broker_id} is not a broker id; they start at 1",
        )


def timeout_of(context: ControllerContext, asked_ms: int | None) -> int:
    """Return how long a broker may be silent, in ms: what it asked for, within limits."""
    if asked_ms is None or asked_ms <= 0:
        return context.times.timeout_ms
    return min(max(asked_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)


def check_sole(context: ControllerContext, key: Key, told: Told, session_id: int) -> None:
    """Raise `Refused` (2014) for a process while another process with the same id lives.

    A process lives while its connection is open and it was heard within the length of a lease.
    """
    live = context.live.get(key, told.broker_id)
    if live is None or live.connection == session_id or not _differs(live, told):
        return
    if not live.closed and live.heard_ms + context.times.lease_ms > context.now:
        raise Refused(
            ResponseCode.CONTROLLER_BROKER_ID_INVALID,
            f"broker {told.broker_id} of group {key[1]} runs already at {live.address}: two "
            "processes must not share one identity; was its directory copied?",
        )


def check_successor(context: ControllerContext, key: Key, told: Told) -> None:
    """Raise `Refused` (2014) for a new process while the master's process before may hold a lease.

    That process may be cut off from the controllers and still acknowledge. The lease ends at once
    when the process is known to have ended.
    """
    group = context.machine.groups.get(key)
    replica = None if group is None else group.replicas.get(told.broker_id)
    if group is None or replica is None or group.master != replica.id:
        return
    if not replica.session or (told.session is not None and is_process(replica, told)):
        return
    left_ms = context.held_until(context.live.get(key, replica.id)) - context.now
    if left_ms > 0:
        raise Refused(
            ResponseCode.CONTROLLER_BROKER_ID_INVALID,
            f"the process of broker {replica.id} of group {key[1]} before this one is its master, "
            f"and may hold a lease for {left_ms} ms more: register again after that",
        )


def is_process(replica: BrokerReplica, told: Told) -> bool:
    """Whether the request comes from the process that registered last; others do not count."""
    return (told.session or "") == replica.session and not (
        replica.incarnation and told.incarnation and replica.incarnation != told.incarnation
    )


def _differs(live: LiveProcess, told: Told) -> bool:
    return bool(live.incarnation and told.incarnation and live.incarnation != told.incarnation) or (
        live.session not in ("", told.session)
    )


def is_known(replica: BrokerReplica, told: Told) -> bool:
    """Whether a heartbeat of the registered process surely has nothing new.

    It is called ten thousand times a second.
    """
    return (
        told.address == replica.address
        and told.ha_address == replica.ha_address
        and told.incarnation == replica.incarnation
    )


def update_of(group: BrokerGroup, replica: BrokerReplica, told: Told) -> UpdateBroker | None:
    """Return the command that records what is new in `told`, or None.

    Another incarnation with the same id has other files, so it counts as one that lost its tail.
    """
    other = bool(
        replica.incarnation and told.incarnation and replica.incarnation != told.incarnation
    )
    fresh = told.session is None or other or told.session not in ("", replica.session)
    event = UpdateBroker(
        *group.key,
        broker_id=replica.id,
        address=told.address,
        ha_address=told.ha_address or replica.ha_address,
        incarnation=told.incarnation or replica.incarnation,
        session="" if told.session is None else told.session or replica.session,
        learner=replica.learner if told.learner is None else told.learner,
        floor=replica.floor if told.floor is None else told.floor,
        lost_tail=fresh and (told.clean_start is False or other),
        ended=fresh and group.master == replica.id,
    )
    same = (
        event.address == replica.address
        and event.ha_address == replica.ha_address
        and event.incarnation == replica.incarnation
        and event.session == replica.session
        and event.learner == replica.learner
        and event.floor == replica.floor
    )
    return None if same and not event.ended else event


def note(live: LiveProcess, told: Told) -> None:
    """Store the values with which later requests of the same process are compared."""
    live.address = told.address
    live.incarnation = told.incarnation or live.incarnation
    live.session = told.session or live.session
