"""Groups in this process that more than one part is tested with; each test starts its brokers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.escape.groups import Groups
from tests.broker.group.group import InProcess


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[InProcess]:
    """A name server and a controller."""
    made = InProcess(tmp_path)
    await made.start(brokers=0)
    try:
        yield made
    finally:
        await made.stop()


@pytest.fixture
async def groups(tmp_path: Path) -> AsyncIterator[Groups]:
    """A name server, for masters of several groups."""
    made = Groups(tmp_path)
    await made.start(brokers=0, controllers=0)
    try:
        yield made
    finally:
        await made.stop()
