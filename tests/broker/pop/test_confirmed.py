"""Calls come in order, once what they wait for is readable."""

from epochmq.broker.pop.revive_driver import Confirmed


def test_calls_wait_for_what_is_readable() -> None:
    readable = [10]
    heard: list[str] = []
    waits = Confirmed(lambda: readable[0])
    waits.when(10, lambda: heard.append("now"))
    waits.when(20, lambda: heard.append("a"))
    waits.when(20, lambda: heard.append("b"))
    waits.when(30, lambda: heard.append("c"))
    assert (heard, len(waits)) == (["now"], 3)
    readable[0] = 25
    waits.run_due()
    assert heard == ["now", "a", "b"]
    waits.clear()
    readable[0] = 30
    waits.run_due()
    assert heard == ["now", "a", "b"]


def test_a_later_call_never_overtakes() -> None:
    readable = [10]
    heard: list[str] = []
    waits = Confirmed(lambda: readable[0])
    waits.when(20, lambda: heard.append("a"))
    readable[0] = 20
    waits.when(20, lambda: heard.append("b"))
    assert heard == []
    waits.run_due()
    assert heard == ["a", "b"]
