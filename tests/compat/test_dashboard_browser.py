"""The dashboard in a real Chromium: every page, a failover, a resend, the keyboard, a login."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.admin.dashboard.test_dashboard_server import started
from tests.admin.shell import shell_in
from tests.client.aio.eventually import eventually

from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.local.local_cluster import LocalCluster
from epochmq.client.aio import Admin, ConsumeResult, Producer, PushConsumer
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig

from .conftest import had
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster
from .peers.secure import ADMIN, SECURE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

T = TypeVar("T")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TOPIC, GROUP, DEAD = "orders", "billing", "%DLQ%billing"
WITHIN_MS = 45_000
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
PAGES = (
    "cluster",
    "topics",
    f"topic?topic={TOPIC}",
    "groups",
    f"group?group={GROUP}",
    f"messages?topic={TOPIC}",
    f"tail?topic={TOPIC}",
    "dead-letters",
    f"dead-letters?group={GROUP}",
    "waiting",
    "jobs",
    "audit",
)
ASKED = tuple(name for name in PAGES if name.split("?")[0] not in ("cluster", "tail"))
"""Pages that wait for an answer; the others receive events, and are drawn before the first one."""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed here (apt-get install chromium)"
)


def apart(call: Callable[[], T]) -> T:
    """Call in a thread: the event loop of this one is the browser driver's."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


async def fill(namesrv: str) -> None:
    """Messages, a consumer group, one dead letter, one timed message."""
    async with Admin(namesrv) as admin:
        masters = await admin.masters()
        await admin.create_topic(TopicConfig(TOPIC, 2, 2))
        for address in masters.values():
            await admin.put_group(address, SubscriptionGroupConfig(GROUP))
        async with Producer(namesrv) as producer:
            for number in range(5):
                body = b'{"order": %d, "note": "<b>bold</b><script>alert(1)</script>"}' % number
                await producer.send(Message(TOPIC, body, "paid", (f"k{number}",)))
            await producer.send(Message(TOPIC, b"later", delay_ms=3_600_000))
        async with PushConsumer(namesrv, GROUP, start="first", max_reconsume_times=0) as consumer:

            def handle(messages: list[Message]) -> ConsumeResult:
                is_bad = any(b'"order": 3' in bytes(each.body) for each in messages)
                return ConsumeResult.LATER if is_bad else ConsumeResult.SUCCESS

            consumer.on_message(handle)
            await consumer.subscribe(TOPIC, "*")
            await consumer.start()

            async def dead() -> int:
                if DEAD not in await admin.topics():
                    return 0
                offsets, _ = await admin.topic_stats(DEAD)
                return sum(at.max_offset for at in offsets.values())

            await eventually(dead, lambda count: count >= 1)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with controllers."""
    cluster = LocalCluster(tmp_path_factory.mktemp("group"))
    apart(lambda: cluster.start(choose_anywhere(replicas=3)))
    try:
        apart(lambda: asyncio.run(fill(cluster.namesrv)))
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def dashboard(group: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the pages about `group`, whose name there is `test`."""
    with shell_in(tmp_path_factory.mktemp("dashboard")) as shell:
        clusters = f"clusters=test={group.namesrv}"
        yield started(shell, "--port", "0", "--set", clusters)[1].rstrip("/")


@pytest.fixture
def page(chromium: Browser, dashboard: str) -> Iterator[Page]:
    with opened(chromium, dashboard) as found:
        yield found


class opened:
    """A page in a fresh profile; its end fails if the page reported an error."""

    def __init__(self, chromium: Browser, address: str, **options: object) -> None:
        self._context = chromium.new_context(base_url=address, **options)  # type: ignore[arg-type]
        self._problems: list[str] = []

    def __enter__(self) -> Page:
        page = self._context.new_page()
        page.set_default_timeout(WITHIN_MS)
        page.on("pageerror", lambda error: self._problems.append(str(error)))
        page.on("dialog", lambda dialog: self._problems.append(f"a script ran: {dialog.message}"))
        page.on("console", lambda line: self._note(line.type, line.text))
        page.goto("/")
        page.wait_for_selector("h1")
        return page

    def _note(self, kind: str, text: str) -> None:
        # An answer that is refused on purpose is a line in the console too.
        if kind == "error" and "Failed to load resource" not in text:
            self._problems.append(text)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._context.close()
        if kind is None:
            assert self._problems == []


def visit(page: Page, name: str, cluster: str = "test") -> None:
    """Show a page and wait until its data is there."""
    page.goto(f"/#/{cluster}/{name}")
    page.reload()
    page.wait_for_selector("main h1")
    shown = page.locator("main table, main .events li, main .panel h2")
    problem = page.locator("#problem:not([hidden])")
    shown.or_(problem).first.wait_for()
    assert page.locator("#problem").is_hidden(), (name, page.locator("#problem").inner_text())


# Every page ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_each_page_for_each_reader(chromium: Browser, dashboard: str, name: str) -> None:
    """Light and dark, wide and as a phone: nothing serious for screen readers, no overflow."""
    from axe_playwright_python.sync_playwright import Axe

    for scheme, size in (("light", WIDE), ("dark", PHONE)):
        with opened(chromium, dashboard, viewport=size, color_scheme=scheme) as page:
            visit(page, name)
            found = Axe().run(page).response["violations"]
            serious = [
                (each["id"], [node["html"] for node in each["nodes"]])
                for each in found
                if each["impact"] in ("serious", "critical")
            ]
            assert serious == [], (scheme, serious)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], (scheme, width)


def test_texts_of_strangers_are_shown_as_texts(page: Page) -> None:
    visit(page, f"messages?topic={TOPIC}&key=k1")
    assert "<b>bold</b><script>" in page.locator("td.body").inner_text()
    assert page.locator("td.body b").count() == 0
    page.get_by_role("link", name="7F").click()
    page.wait_for_selector("pre")
    assert "<script>alert(1)</script>" in page.locator("pre").inner_text()


def test_a_mistyped_topic_is_told_on_the_page(page: Page) -> None:
    page.goto("/#/test/topic?topic=ordrs")
    page.wait_for_selector("#problem:not([hidden])")
    assert "did you mean 'orders'" in page.locator("#problem").inner_text()


def test_a_late_answer_does_not_replace_the_page_that_is_open(page: Page) -> None:
    held: list[Route] = []
    page.route("**/api/c/test/topics?*", lambda route: held.append(route))
    page.get_by_role("link", name="Topics", exact=True).click()
    page.wait_for_function("document.title.startsWith('Topics')")
    page.get_by_role("link", name="Groups", exact=True).click()
    page.get_by_role("heading", name="Consumer groups").wait_for()
    with page.expect_response("**/api/c/test/topics?*"):
        held[0].continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    assert page.locator("h1").inner_text() == "Consumer groups"
    assert page.locator("#problem").is_hidden()


ASKING = "Asking the cluster …"


def asking(page: Page, name: str) -> list[Route]:
    """Open a page, hold its requests, and wait until it tells that it waits."""
    held: list[Route] = []
    page.unroute_all()
    page.route("**/api/c/test/*", lambda route: held.append(route))
    page.goto(f"/#/test/{name}")
    page.get_by_text(ASKING).wait_for()
    return held


def test_a_late_answer_is_shown(page: Page) -> None:
    for name in ASKED:
        for route in asking(page, name):
            route.continue_()
        page.wait_for_selector("main table, main .panel h2")
        assert page.get_by_text(ASKING).count() == 0, name
        assert page.locator("#problem").is_hidden(), name


def test_a_late_failure_is_shown(page: Page) -> None:
    for name in ASKED:
        for route in asking(page, name):
            route.fulfill(status=502, json={"error": f"No broker answers {name}."})
        page.get_by_text(f"No broker answers {name}.").wait_for()
        assert page.get_by_text(ASKING).count() == 0, name
        assert page.locator("main h1").count() == 1, name


def test_the_pages_by_keyboard_alone(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Dead letters":
            break
    page.keyboard.press("Enter")
    page.get_by_role("link", name=GROUP, exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="To the group").first.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog[open]")
    dialog.wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_new_messages_appear_in_the_live_tail(page: Page, group: LocalCluster) -> None:
    visit(page, "cluster")
    page.goto(f"/#/test/tail?topic={TOPIC}&filter=fresh")
    page.get_by_text("Following orders").wait_for()

    async def send() -> None:
        async with Producer(group.namesrv) as producer:
            await producer.send(Message(TOPIC, b"not wanted", "stale"))
            await producer.send(Message(TOPIC, b"just sent", "fresh"))

    page.wait_for_timeout(500)  # the stream begins at the end of the queues
    apart(lambda: asyncio.run(send()))
    page.get_by_text("just sent").wait_for()
    assert page.get_by_text("not wanted").count() == 0


# Actions -------------------------------------------------------------------------------------


def test_a_dead_letter_is_sent_once_although_clicked_twice(
    page: Page, chromium: Browser, dashboard: str, group: LocalCluster
) -> None:
    """In two windows, twice in each."""
    with opened(chromium, dashboard) as other:
        for each in (page, other):
            visit(each, f"dead-letters?group={GROUP}")
            each.get_by_role("button", name="To its topic").click()
            each.locator("dialog[open]").wait_for()
        for each in (page, other):
            each.locator("dialog button.main").dblclick(no_wait_after=True)
        texts = []
        for each in (page, other):
            each.locator("dialog [role=alert]:not(:empty)").wait_for()
            texts.append(each.locator("dialog [role=alert]").inner_text())
        assert sorted(texts) == [
            "It had been sent before; nothing was sent now.",
            "It was sent.",
        ]
        page.get_by_role("button", name="Close").click()
        page.get_by_text("sent again", exact=True).wait_for()

    async def copies() -> int:
        async with Admin(group.namesrv) as admin:
            return len(await admin.messages_by_key(TOPIC, "k3"))

    assert apart(lambda: asyncio.run(eventually(copies, lambda count: count >= 2))) == 2
    visit(page, "audit")
    assert page.get_by_text("done").count() >= 1


# A failover ----------------------------------------------------------------------------------


def test_a_failover_is_seen_while_the_page_is_open(page: Page, group: LocalCluster) -> None:
    visit(page, "cluster")
    page.locator("h3 .badge.good").wait_for()
    before = page.locator(".events li").count()
    began = time.monotonic()
    with shell_in(group.directory) as shell:
        assert shell.run("chaos", "--dir", str(group.directory), "kill", "master")[0] == 0
    page.locator(".events li", has_text="epoch 1 -> 2").wait_for()
    print(f"seen {time.monotonic() - began:.2f} s after the command to kill began")
    page.locator(".steps li", has_text="role applied").first.wait_for()
    assert page.locator(".events li").count() > before
    assert page.get_by_text("dead", exact=True).count() == 1
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("button", name="Stop").wait_for()
    page.get_by_role("button", name="Replay").wait_for()  # it ends on its own
    slider = page.get_by_role("slider")
    slider.fill("1")
    assert page.locator(".events li").count() == 1


# Clusters with users, and RocketMQ's own -----------------------------------------------------


def test_a_login_by_the_page(chromium: Browser, tmp_path: Path) -> None:
    with EpochCluster(broker_config=SECURE) as cluster, shell_in(tmp_path) as shell:
        address = started(shell, "-n", cluster.namesrv_addr, "--port", "0")[1].rstrip("/")
        with opened(chromium, address) as page:
            page.get_by_role("heading", name="Log in").wait_for()
            for password, words in (("guess", "is wrong"), (ADMIN.secret_key, None)):
                page.get_by_label("User").fill(ADMIN.access_key)
                page.get_by_label("Password").fill(password)
                page.keyboard.press("Enter")
                if words is not None:
                    page.get_by_text(words).wait_for()
            page.get_by_text("master ").first.wait_for()
            page.get_by_role("button", name="Log out").click()
            page.get_by_role("heading", name="Log in").wait_for()
            assert page.get_by_text("master ").count() == 0


def test_one_dashboard_for_a_cluster_of_ours_and_one_of_rocketmqs(
    chromium: Browser, group: LocalCluster, tmp_path: Path
) -> None:
    with had(JavaCluster) as java, shell_in(tmp_path) as shell:
        apart(lambda: asyncio.run(fill(java.namesrv_addr)))
        clusters = f"clusters=ours={group.namesrv};rocketmq={java.namesrv_addr}"
        address = started(shell, "--port", "0", "--set", clusters)[1].rstrip("/")
        with opened(chromium, address) as page:
            for name in PAGES:
                visit(page, name, "rocketmq")
            visit(page, "cluster", "rocketmq")
            page.locator("td", has_text="master").first.wait_for()
            page.get_by_label("Cluster").select_option("ours")
            page.get_by_text("set epoch").first.wait_for()
