"""The documentation site: builds without a warning, has every page and every command."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
ROOT = Path(__file__).parents[2]
SPHINX = (sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a warning, such as a link to a page or heading that is not there, is an error."""
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [*SPHINX, "-c", ROOT / "docs" / "site", ROOT / "docs", target],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return target


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_every_page_is_there_and_can_be_reached(site: Path) -> None:
    sources = {p.relative_to(ROOT / "docs").with_suffix("") for p in (ROOT / "docs").rglob("*.md")}
    index = (site / "index.html").read_text()
    for page in sources:
        assert (site / page).with_suffix(".html").is_file()
        assert f'href="{page.as_posix()}.html"' in index or page.as_posix() == "index"


def test_programs_are_shown_whole(site: Path) -> None:
    for page, program in (
        ("tutorial.html", "tutorial/bill_orders.py"),
        ("howto.html", "howto/transaction.py"),
        ("coming-from/rocketmq-java.html", "coming_from/JavaProgram.java"),
    ):
        assert (ROOT / "examples" / program).read_text().strip() in text_of(site / page)


def test_the_reference_has_commands_and_documented_arguments(site: Path) -> None:
    commands = text_of(site / "cli.html")
    for name in ("epochmq topic create", "epochmq backup restore", "epochmq mqadmin topicList"):
        assert f"Usage: {name} [OPTIONS]" in commands
    api = text_of(site / "api.html")
    for text in ("linger_ms", "max_in_flight", "execute_local", "advance_clock", "DamageThere"):
        assert (text in api) is (text != "DamageThere")


def test_no_page_leads_to_a_file_that_the_site_does_not_have(site: Path) -> None:
    links = re.compile(r'href="([^"#:?]+)(?:#[^"]*)?"')
    for page in site.rglob("*.html"):
        for link in links.findall(page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(site)} leads to {link}"
