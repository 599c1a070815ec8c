"""A fresh table of each format."""

from pathlib import Path

import pytest
from tests.tables.made import APP, SCHEMA

from epochmq.tables.opening import AnyTable, open_table


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> AnyTable:
    """Of the format that the test's parameter names."""
    return open_table(str(tmp_path / "table"), request.param, schema=SCHEMA, app=APP)
