"""One object decides whether a broker may serve; its role changes as the table says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import OurBug
from epochmq.base.unbounded import FOREVER
from epochmq.broker.serving.roles import HELD_MASTER, ROLES, TRANSITIONS, Role
from epochmq.broker.serving.serving_state import Serving


class StepClock:
    def __init__(self) -> None:
        self.now = 1_000

    def now_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.now


def serving(clock: StepClock | None = None) -> tuple[Serving, list[Role]]:
    changes: list[Role] = []
    return Serving(clock or StepClock(), changes.append), changes


@given(wanted=st.lists(st.sampled_from(Role), max_size=12))
def test_only_the_changes_of_the_table_happen(wanted: list[Role]) -> None:
    one, changes = serving()
    for role in wanted:
        before = one.role
        if role in TRANSITIONS[before]:
            one.change_role(role)
            assert one.role is role
        else:
            with pytest.raises(OurBug, match=f"{before.name} does not become {role.name}"):
                one.change_role(role)
            assert one.role is before
    assert one.role_changes == len(changes)


@given(role=st.sampled_from(Role), until=st.integers(0, 3_000), now=st.integers(0, 3_000))
def test_rights_never_exceed_the_row_of_the_role(role: Role, until: int, now: int) -> None:
    clock = StepClock()
    one, _ = serving(clock)
    one.role = role
    one.grant_lease(until)
    clock.now = now
    row = ROLES[role] if now < until else ROLES[Role.FENCED]
    assert one.rights is row
    assert one.delivers == row.secondary
    one.grant_lease(FOREVER)
    assert one.rights is ROLES[role]


def test_after_the_lease_the_set_decides() -> None:
    clock = StepClock()
    one, _ = serving(clock)
    one.grant_lease(clock.now)
    assert not one.rights.writable
    one.trust_set(lambda now: now < 1_500)
    assert one.rights is HELD_MASTER
    assert not one.delivers
    assert one.rests
    clock.now = 1_500
    assert not one.rights.writable


def test_a_new_master_delivers_once_its_log_is_confirmed() -> None:
    one, _ = serving()
    one.deliver_from(7)
    assert (one.delivers, one.rests, one.delivers_from) == (False, False, 7)
    one.deliver_from(None)
    assert one.delivers
