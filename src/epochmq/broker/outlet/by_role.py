"""Where secondary messages go, by what the broker may do now: its own log, or another master.

A broker that may write writes its own log. One that stands in for its master may not, ever
(INV-32): what it must write goes away (RIP-32's escape), to a living master of another group.
And a message that belongs to another master's log goes there from either: the acknowledgement of a
check point that was handed over while a slave stood in (facts/acting-master.md 9.2 H18).
"""

from collections.abc import Callable, Sequence

from epochmq.broker.escape.pins import is_pinned
from epochmq.broker.outlet.core import Done, Origin, Outcome, Route
from epochmq.broker.roles import RoleRow
from epochmq.model.names import REVIVE_TOPIC_PREFIX
from epochmq.store.draft import Draft
from epochmq.store.twin.remake import Remade


class ByRole:
    """The route of every broker; `away` is None where nothing escapes."""

    def __init__(self, own: Route, rights: Callable[[], RoleRow]) -> None:
        self._own = own
        self._rights = rights
        self.away: Route | None = None

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        rights = self._rights()
        if isinstance(drafts, Remade) and not rights.writable:
            drafts = drafts.drafts()  # the other way keeps them for longer
        foreign = not isinstance(drafts, Remade) and any(map(_is_foreign, drafts))
        if not foreign and (rights.writable or not rights.secondary):
            self._own.put(drafts, origin, wall, done)
        elif self.away is not None and (rights.writable or rights.secondary):
            self.away.put(drafts, origin, wall, done)
        else:
            done([Outcome.LATER] * len(drafts))


def _is_foreign(draft: Draft) -> bool:
    return is_pinned(draft.queue_id) and draft.topic.startswith(REVIVE_TOPIC_PREFIX)
