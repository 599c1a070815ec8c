"""The error tree: causes stay apart, and what users see is one clear line a problem."""

import pytest

from epochmq.base import errors


def test_causes_are_kept_apart() -> None:
    assert not issubclass(errors.PeerError, errors.EnvironmentFault)
    assert not issubclass(errors.OurBug, errors.PeerError)
    assert issubclass(errors.HeaderError, errors.PeerError)
    assert issubclass(errors.SyncFailed, errors.DiskFailed)


def test_a_refusal_carries_its_code() -> None:
    refusal = errors.Refused(17, "topic not there")
    assert (refusal.code, refusal.remark, str(refusal)) == (
        17,
        "topic not there",
        "topic not there",
    )


def test_a_config_error_lists_every_problem() -> None:
    error = errors.ConfigError(["one", "two"])
    assert error.problems == ["one", "two"]
    assert str(error).splitlines() == ["one", "two"]


@pytest.mark.parametrize("name", ["DiskFull", "StoreInUse", "PortInUse", "NotReachable"])
def test_the_environment_is_one_branch(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.EnvironmentFault)
