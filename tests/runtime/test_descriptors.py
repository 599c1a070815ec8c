import os
import resource
from collections.abc import Iterator

import pytest

from epochmq.runtime import descriptors
from epochmq.runtime.descriptors import (
    RESERVE_MAX,
    descriptor_figures,
    limit,
    open_count,
    raise_limit,
    reserve_of,
    socket_refusal,
)


@pytest.fixture(autouse=True)
def same_limits_afterwards() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    assert limit() == 200
    assert raise_limit() == limit() == min(hard, descriptors.NUMBER_MAX)
    assert raise_limit() == limit()


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    try:
        assert raise_limit() == 200
    finally:
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("number_max", "reserve"), [(256, 64), (1_024, 256), (1 << 20, RESERVE_MAX)]
)
def test_sockets_stay_below_the_reserve(
    number_max: int, reserve: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "limit", lambda: number_max)
    assert reserve_of(number_max) == reserve
    assert socket_refusal(number_max - reserve - 1) is None
    assert f"of {number_max} file descriptors" in str(socket_refusal(number_max - reserve))
    # Replicas get through where clients do not.
    assert socket_refusal(number_max - reserve, for_replicas=True) is None
    assert socket_refusal(number_max - reserve // 2, for_replicas=True) is not None


def test_what_is_open_is_counted() -> None:
    before = open_count()
    fds = [os.dup(0) for _ in range(5)]
    assert open_count() == before + 5
    for fd in fds:
        os.close(fd)
    figures = descriptor_figures()
    assert figures == {
        "epochmqDescriptors": str(open_count()),
        "epochmqDescriptorsMax": str(limit()),
    }
