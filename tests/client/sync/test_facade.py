"""The synchronous clients have the asyncio clients' calls, argument by argument."""

import inspect
from collections.abc import Callable

import pytest

from epochmq.client import aio, sync

PAIRS = [
    (getattr(sync, name), getattr(aio, name))
    for name in ("Producer", "TransactionProducer", "PullConsumer", "PushConsumer", "PopConsumer")
]


def calls(kind: type) -> dict[str, Callable[..., object]]:
    found = inspect.getmembers(kind, lambda value: inspect.isfunction(value))
    return {name: call for name, call in found if not name.startswith("_")}


def arguments(call: Callable[..., object]) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(call).parameters.values() if p.name != "self"]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__module__)
def test_every_call_is_there_with_the_same_arguments(ours: type, theirs: type) -> None:
    wanted, found = calls(theirs), calls(ours)
    assert set(wanted) == set(found)
    for name, call in wanted.items():
        assert arguments(found[name]) == arguments(call), name
        assert found[name].__doc__


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__module__)
def test_they_are_made_with_the_same_arguments(ours: type, theirs: type) -> None:
    made = inspect.signature(ours.__init__)
    assert [p for p in made.parameters.values() if p.name != "self"] == arguments(theirs)
