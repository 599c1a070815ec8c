"""The programs of examples/client run, and the documentation shows them as they are."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.testing.mini_cluster import MiniCluster

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "client"
PAGES = ("README.md", "docs/TESTING.md")
PROGRAMS = {
    "first_messages.py": ["SEND_OK"],
    "iterate.py": ["tick 0", "tick 1", "tick 2"],
    "blocking_send.py": [""],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster() as running:
        yield running


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs(cluster: MiniCluster, name: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        env={**os.environ, "NAMESRV_ADDR": cluster.namesrv},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in PROGRAMS[name]:
        assert text in done.stdout


@pytest.mark.parametrize(
    ("name", "count"),
    [("test_order_service.py", 3), ("test_shop.py", 5)],
)
def test_the_suite_of_a_service_passes(name: str, count: int) -> None:
    suite = EXAMPLES / name
    plugin = ("-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, suite],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f"{count} passed" in done.stdout, done.stdout


def without_environment(program: str) -> str:
    """Return a program as pages show it: with the address of a local name server."""
    program = program.replace(
        'os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")', '"127.0.0.1:9876"'
    )
    return program.replace("import os\n", "")


def blocks(page: str) -> list[str]:
    """Return the Python programs of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


@pytest.mark.parametrize("page", PAGES)
def test_pages_show_the_programs_as_they_are(page: str) -> None:
    programs = [path.read_text() for path in EXAMPLES.glob("*.py")]
    shown = [re.sub(r"\n{2,}", "\n", without_environment(text)) for text in programs]
    found = 0
    for block in blocks(page):
        lines = re.sub(r"\n{2,}", "\n", block)
        found += any(lines in text for text in shown)
    assert found >= (2 if page == "README.md" else 1)
