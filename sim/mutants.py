"""Safeguards of what a broker moves on later, taken out of one process, one at a time (INV-92).

Each is a function that spoils a new process before it runs; the product knows nothing of it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from epochmq.broker.outlet.core import Done, Local, Origin, Outcome
from epochmq.broker.pop.revive.core import Revive
from epochmq.store.draft import Draft

if TYPE_CHECKING:
    from sim.acting import BrokerProcess
    from sim.secondary import SecondaryBroker


def outlet_advances_after_ack(broker: "SecondaryBroker") -> None:
    """What is appended counts as kept at once, by the device and by replicas."""
    local = broker.owned.ways_out._own
    assert isinstance(local, Local)
    local._kept = lambda _end, done: done(True)


def pop_progress_waits(broker: "SecondaryBroker") -> None:
    """The revive queue counts as done as far as it was read."""
    hands = broker.owned.pop.hands
    keep = hands._keep

    def kept(core: Revive, queue_id: int, wall: int) -> None:
        core._places.clear()
        keep(core, queue_id, wall)

    hands._keep = kept  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[["SecondaryBroker"], None]] = {
    spoil.__name__: spoil for spoil in (outlet_advances_after_ack, pop_progress_waits)
}


def pre_online_version_check(process: "BrokerProcess") -> None:
    """A broker that comes back takes nothing over: its own tables count as the newest."""
    back = process.member.pre_online
    if back is not None:
        back._merge.take = lambda _table, _body, _wall: None  # type: ignore[method-assign]


def escape_advances_after_ack(process: "BrokerProcess") -> None:
    """What goes to another group counts as held there before it is sent."""
    escape = process.watched.escape
    plain = escape.put

    def put(drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        plain(drafts, origin, wall, lambda _outcomes: None)
        done([Outcome.STORED] * len(drafts))

    escape.put = put  # type: ignore[method-assign]


ACTING_MUTANTS: dict[str, Callable[["BrokerProcess"], None]] = {
    spoil.__name__: spoil for spoil in (pre_online_version_check, escape_advances_after_ack)
}
"""Those of groups without controllers (the world `acting`)."""
