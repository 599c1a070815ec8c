"""Blocking steps: order, errors, what is busy."""

from epochmq.base.errors import DiskFull, EnvironmentFault
from epochmq.store.chores import Chores


def test_steps_run_in_order_and_done_comes_last() -> None:
    chores = Chores()
    seen: list[object] = []
    chores.add("a", [lambda: seen.append(1), lambda: seen.append(2)], seen.append)
    chores.add("b", [], seen.append)
    assert (len(chores), chores.busy("b"), chores.busy("c")) == (2, True, False)
    chores.run_all()
    assert seen == [1, 2, None, None]
    assert (len(chores), chores.next_step()) == (0, None)


def test_an_error_ends_its_chore_only() -> None:
    chores = Chores()
    seen: list[object] = []
    error = DiskFull("full")

    def fail() -> None:
        raise error

    def told(found: EnvironmentFault | None) -> None:
        seen.append(found)

    chores.add("a", [fail, lambda: seen.append("never")], told)
    chores.add("b", [lambda: seen.append("b")], told)
    chores.run_all()
    assert seen == [error, "b", None]
