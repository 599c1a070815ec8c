"""The page of jobs; tests/spark/jobs/test_job_status.py has the reports."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.admin.dashboard.app_world import Browser, pages_of
from tests.admin.world import World

from epochmq.admin.dashboard.job_queries import TOPIC


@pytest.fixture
async def browser(world: World, tmp_path: Path) -> AsyncIterator[Browser]:
    async with pages_of(world, tmp_path) as pages, pages.browser() as opened:
        yield opened


async def test_without_the_topic_the_page_says_so(browser: Browser) -> None:
    assert await browser.get("jobs") == {"topic": TOPIC, "is_there": False, "rows": []}
