"""Which controller is believed to be the active one."""

from epochmq.broker.group.finder import MISSING_MS, Finder


def finder() -> Finder:
    return Finder(("a", "b", "c"), 10_000)


def test_all_are_asked_first_and_again_by_period() -> None:
    found = finder()
    assert found.due(0)
    assert found.leader("a", 1, 5)
    assert not found.due(10_004)
    assert found.due(10_005)


def test_the_higher_term_is_believed() -> None:
    found = finder()
    found.leader("a", 3, 0)
    assert not found.leader("b", 2, 0)
    assert found.active == "a"
    assert found.leader("b", 4, 0)
    assert found.active == "b"


def test_hearsay_without_a_term_does_not_move_it() -> None:
    found = finder()
    found.leader("a", 3, 0)
    assert not found.leader("b", 0, 0)
    found.lost("a", 0)
    assert found.leader("b", 0, 0)


def test_lost_it_is_looked_for_at_once_but_not_in_a_loop() -> None:
    found = finder()
    found.due(0)
    found.leader("a", 1, 1)
    found.lost("b", 500)
    assert found.active == "a"
    found.lost("a", 500)
    assert found.due(500)
    found.leader("a", 1, 501)
    found.lost("a", 501)
    assert not found.due(502)
    assert found.due(560)


def test_a_controller_that_began_again_is_believed_once_the_old_one_is_lost() -> None:
    found = finder()
    found.leader("a", 30, 0)
    found.lost("a", 0)
    assert found.leader("b", 1, 0)
    assert found.term == 1


def test_another_list_is_asked_at_once() -> None:
    found = finder()
    found.due(0)
    found.leader("a", 1, 0)
    found.use(("b", "c"), 50)
    assert found.active is None
    assert found.due(50)
    found.use(("b", "c"), 60)
    assert not found.due(60)


def test_the_operator_is_told_when_nobody_leads_for_long() -> None:
    found = finder()
    assert found.problem(10_000) == ""
    for now in range(0, 5_000, 500):
        found.due(now)
        assert ("no active controller at a;b;c" in found.problem(now)) == (now >= MISSING_MS)
    found.leader("a", 1, 5_000)
    assert found.problem(20_000) == ""
    found.lost("a", 20_000)
    found.due(20_100)
    assert found.problem(20_100 + MISSING_MS - 1) == ""
    assert found.problem(20_100 + MISSING_MS)
