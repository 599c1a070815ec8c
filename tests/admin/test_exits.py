"""Which error ends in which exit code, and what is said."""

import pytest

from epochmq.admin import exits
from epochmq.base.errors import (
    ConfigError,
    EpochError,
    NotFound,
    NotReachable,
    OurBug,
    PortInUse,
    Refused,
    UsageError,
)
from epochmq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PortInUse("taken"), 1),
        (Refused(1, "no"), 1),
        (ValueError("a bug"), 1),
        (UsageError("x"), 2),
        (ConfigError(["x"]), 2),
        (NotReachable("x"), 3),
        (exits.Unhealthy("x"), 4),
        (NotFound("x"), 5),
        (Refused(ResponseCode.TOPIC_NOT_EXIST, "x"), 5),
        (Refused(ResponseCode.QUERY_NOT_FOUND, "x"), 5),
        (Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "x"), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_has_its_code(error: BaseException, code: int) -> None:
    assert exits.exit_code(error) == code


def test_what_users_are_told() -> None:
    assert exits.explain(EpochError("the port is taken")) == "the port is taken"
    assert exits.explain(Refused(14, "no permission")) == "refused: no permission (code 14)"
    assert exits.explain(FileNotFoundError(2, "No such file", "x")) == "x: No such file"
    for bug in (KeyError("x"), OurBug("offsets crossed")):
        assert "a bug in EpochMQ" in exits.explain(bug)
