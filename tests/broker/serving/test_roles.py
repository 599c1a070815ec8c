"""The table of roles is whole, and only a master takes messages."""

from pathlib import Path

from epochmq.broker.serving.roles import HELD_MASTER, ROLES, TRANSITIONS, Role, transition_diagram


def test_every_role_has_its_row() -> None:
    assert set(ROLES) == set(Role)


def test_only_a_master_is_written_to() -> None:
    assert [role for role, row in ROLES.items() if row.writable] == [Role.MASTER]


def test_secondary_messages_move_on_masters_and_acting_masters() -> None:
    secondary = {role for role, row in ROLES.items() if row.secondary}
    assert secondary == {Role.MASTER, Role.ACTING_MASTER}
    assert not ROLES[Role.FENCED].readable


def test_an_acting_master_keeps_consumer_state_and_changes_nothing_else() -> None:
    """RIP-32: offsets, locks and pops; never the log, topics or groups (INV-32)."""
    row = ROLES[Role.ACTING_MASTER]
    assert row.consumes
    assert row.readable
    assert row.registers
    assert not row.writable
    assert not row.changes
    assert {role for role, row in ROLES.items() if row.consumes} == {
        Role.MASTER,
        Role.ACTING_MASTER,
    }


def test_one_word_is_enough_only_from_a_master_with_a_lease() -> None:
    """Locks, offsets and metadata: nobody else has them when they are answered (ADR 0044)."""
    assert [role for role, row in ROLES.items() if row.changes] == [Role.MASTER]
    assert HELD_MASTER.writable
    assert HELD_MASTER.readable
    assert not HELD_MASTER.changes
    assert not HELD_MASTER.consumes
    assert not HELD_MASTER.secondary


def test_every_role_can_be_left_and_reached() -> None:
    assert set(TRANSITIONS) == set(Role)
    assert all(TRANSITIONS.values())
    assert set().union(*TRANSITIONS.values()) == set(Role)


def test_an_acting_master_never_becomes_master_at_once() -> None:
    """It gives the role back first; what it did is handed over (INV-29, INV-32)."""
    assert TRANSITIONS[Role.ACTING_MASTER] == {Role.SLAVE}
    assert [r for r, after in TRANSITIONS.items() if Role.ACTING_MASTER in after] == [Role.SLAVE]


def test_the_diagram_of_the_documentation_is_that_of_the_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "ARCHITECTURE.md"
    assert f"```mermaid\n{transition_diagram()}\n```" in page.read_text()
