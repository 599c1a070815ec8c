"""Strict locks need to know whom to ask."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.broker.config.feature_keys import lock_problems
from epochmq.broker.config.options import load_options


@pytest.mark.parametrize(
    ("strict", "replicas", "acting", "count"),
    [(True, 2, False, 1), (True, 2, True, 0), (True, 1, False, 0), (False, 3, False, 0)],
)
def test_together(strict: bool, replicas: int, acting: bool, count: int) -> None:
    assert len(lock_problems(strict=strict, replicas=replicas, acting=acting)) == count


def test_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="needs enableSlaveActingMaster"):
        load_options({"lockInStrictMode": "true", "totalReplicas": "3"}, env={})
