"""The own log while it may be written, another master for an acting one."""

from collections.abc import Sequence

import pytest

from epochmq.broker.internal_writes.internal_writer import Done, Origin, WriteOutcome
from epochmq.broker.internal_writes.role_route import RoleRoute
from epochmq.broker.serving.roles import ROLES, Role
from epochmq.model.revive_routing import pinned, place_of
from epochmq.store.draft import Draft


class Way:
    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Done) -> None:
        self.drafts += drafts
        done([WriteOutcome.STORED] * len(drafts))


PLAIN = Draft("T", 0, b"x", b"")
FOREIGN = Draft("rmq_sys_REVIVE_LOG_c", pinned(place_of("z"), 1), b"x", b"")


@pytest.mark.parametrize(
    ("role", "draft", "own", "away"),
    [
        (Role.MASTER, PLAIN, True, False),
        (Role.MASTER, FOREIGN, False, True),
        (Role.ACTING_MASTER, PLAIN, False, True),
        (Role.ACTING_MASTER, FOREIGN, False, True),
        (Role.SLAVE, PLAIN, True, False),  # which refuses (INV-32)
        (Role.SLAVE, FOREIGN, False, False),
        (Role.FENCED, FOREIGN, False, False),
    ],
)
def test_where_it_goes(role: Role, draft: Draft, own: bool, away: bool) -> None:
    here, there = Way(), Way()
    route = RoleRoute(here, lambda: ROLES[role])
    route.use(there)
    said: list[Sequence[WriteOutcome]] = []
    route.put([draft], Origin.POP, 0, said.append)
    assert (bool(here.drafts), bool(there.drafts)) == (own, away)
    assert said == [[WriteOutcome.STORED if own or away else WriteOutcome.LATER]]


@pytest.mark.parametrize("draft", [PLAIN, FOREIGN])
def test_with_no_way_out_it_waits(draft: Draft) -> None:
    here = Way()
    said: list[Sequence[WriteOutcome]] = []
    RoleRoute(here, lambda: ROLES[Role.ACTING_MASTER]).put([draft], Origin.POP, 0, said.append)
    assert said == [[WriteOutcome.LATER]]
    assert not here.drafts
