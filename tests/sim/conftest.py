"""Time for histories on a busy machine: a test plays fifty of them."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 900
"""An alarm in the middle of a history is an error of whatever runs then, which may swallow it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
