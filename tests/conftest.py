"""Settings shared by all tests: how hard properties are tried, and logging as each found it."""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no bug, so no property has a deadline; pytest's own timeout catches hangs.
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_QUIET)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    suppress_health_check=_QUIET,
    database=None,
    print_blob=True,
)
settings.register_profile(
    "campaign", max_examples=10_000, deadline=None, suppress_health_check=_QUIET
)
settings.load_profile(
    os.environ.get("EPOCHMQ_PROPERTIES") or ("ci" if os.environ.get("CI") else "dev")
)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A server command run in this process sets up the root logger; the next test has its own."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [each for each in root.handlers if each not in handlers]:
        if getattr(handler, "epochmq", False):
            root.removeHandler(handler)
            handler.close()
