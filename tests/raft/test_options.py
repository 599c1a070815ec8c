"""Options that cannot work are refused with all that is wrong."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.raft.options import RaftOptions


def test_defaults_work() -> None:
    assert RaftOptions().lease_ms == 800


def test_every_problem_is_named() -> None:
    with pytest.raises(ConfigError) as found:
        RaftOptions(
            election_timeout_ms=100, heartbeat_ms=80, lease_margin_ms=100, append_bytes_max=0
        )
    assert len(found.value.problems) == 3
