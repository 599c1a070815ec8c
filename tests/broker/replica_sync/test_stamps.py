"""Asking for a table only if it changed."""

from epochmq.broker.replica_sync.stamps import StampHeader, Watchers, asking, since, stamped
from epochmq.wire.command import Command


def test_an_unchanged_table_is_not_sent() -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"table"

    whole = stamped(Command(21), "s1", make)
    assert (whole.body, whole.header) == (b"table", StampHeader("s1"))
    again = stamped(Command(21, ext=asking("s1")), "s1", make)
    assert (again.body, again.header) == (b"", StampHeader("s1", unchanged=True))
    assert made == [1]
    assert stamped(Command(21, ext=asking("s1")), "s2", make).body == b"table"


def test_who_asks_first_has_no_stamp() -> None:
    assert asking(None) == {}
    assert since(Command(21)) is None
    assert since(Command(21, ext=asking("x"))) == "x"


def test_a_question_is_kept_until_there_is_news() -> None:
    watchers = Watchers()
    said: list[str] = []
    stamp = ["s1"]

    def hold(name: str, last: str | None, wait_ms: int) -> bool:
        command = Command(21, ext=asking(last, wait_ms))
        return watchers.hold(command, 0, lambda: stamp[0], lambda: said.append(name))

    assert hold("a", "s1", 1000)
    assert hold("b", "s1", 500)
    assert not hold("c", "s0", 500)  # there is news already
    assert not hold("d", "s1", 0)
    assert not hold("e", None, 500)
    watchers.look(499)
    assert said == []
    watchers.look(500)
    assert said == ["b"]
    stamp[0] = "s2"
    watchers.look(501)
    assert said == ["b", "a"]
    watchers.look(5000)
    assert said == ["b", "a"]
