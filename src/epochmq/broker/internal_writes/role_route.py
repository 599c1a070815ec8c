"""Chooses by the broker's role where an internal write goes: the own log, or another master.

A broker that may write appends to its own log. An acting master must never append (INV-32): it
forwards the message to a living master of another group (RIP-32's escape). A message that belongs
to another master's log is forwarded in either role: the acknowledgement of a check point that was
handed over while a slave was the acting master.
"""

from collections.abc import Callable, Sequence

from epochmq.broker.internal_writes.internal_writer import Done, Origin, Route, WriteOutcome
from epochmq.broker.serving.roles import RoleRow
from epochmq.model.names import REVIVE_TOPIC_PREFIX
from epochmq.model.revive_routing import is_pinned
from epochmq.store.draft import Draft
from epochmq.store.remake import Remade


class RoleRoute:
    """Routes internal messages to the own log or to another master, by the broker's rights."""

    def __init__(self, own: Route, rights: Callable[[], RoleRow]) -> None:
        self._own = own
        self._rights = rights
        self._away: Route | None = None
        """Route for messages that must not be written here; None if there is no such route."""

    def use(self, away: Route) -> None:
        """Use `away` to forward messages that must not be written here."""
        self._away = away

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        rights = self._rights()
        if isinstance(drafts, Remade) and not rights.writable:
            drafts = drafts.drafts()  # the other way keeps them for longer
        foreign = not isinstance(drafts, Remade) and any(map(_is_foreign, drafts))
        if not foreign and (rights.writable or not rights.secondary):
            self._own.put(drafts, origin, wall, done)
        elif self._away is not None and (rights.writable or rights.secondary):
            self._away.put(drafts, origin, wall, done)
        else:
            done([WriteOutcome.LATER] * len(drafts))


def _is_foreign(draft: Draft) -> bool:
    return is_pinned(draft.queue_id) and draft.topic.startswith(REVIVE_TOPIC_PREFIX)
