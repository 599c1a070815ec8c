"""The application over a real broker: what the pages get, which requests are refused."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.admin.dashboard.app_world import Browser, Pages, pages_of
from tests.admin.world import OFFLINE, ONLINE, TOPIC, World
from tests.client.aio.eventually import eventually

from epochmq.client.aio import Admin, ConsumeResult, Producer, PushConsumer
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.message import Message
from epochmq.model.topic import TopicConfig

DEAD = "dying"
NOBODY = "never-seen"


@pytest.fixture
async def pages(world: World, tmp_path: Path) -> AsyncIterator[Pages]:
    async with pages_of(world, tmp_path) as running:
        yield running


@pytest.fixture
async def browser(pages: Pages) -> AsyncIterator[Browser]:
    async with pages.browser() as opened:
        yield opened


# Pages ---------------------------------------------------------------------------------------


async def test_an_open_cluster_wants_no_login(browser: Browser) -> None:
    session = await browser.open()
    (cluster,) = session["clusters"]
    assert cluster["login_required"] is False
    assert cluster["user"] is None


async def test_the_files_of_the_pages(browser: Browser) -> None:
    index = await browser.http.get("/")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    for name in ("dashboard.js", "dashboard.css", "uplot.min.js", "uplot.min.css", "icon.svg"):
        assert name in index.text
        assert (await browser.http.get(f"/static/{name}")).status_code == 200
    for name in ("../dashboard_app.py", "..%2fdashboard_app.py", "uplot.LICENSE", "none"):
        assert (await browser.http.get(f"/static/{name}")).status_code == 404


async def test_the_state_of_the_cluster(pages: Pages) -> None:
    async def state() -> dict[str, object]:
        return pages.watched.state()

    found = await eventually(state, lambda row: bool(row["groups"]) and bool(row["samples"]))
    groups = found["groups"]
    assert isinstance(groups, list)
    (group,) = groups
    assert group["name"] == "broker-a"
    assert [replica["role"] for replica in group["replicas"]] == ["master"]
    assert [replica["trouble"] for replica in group["replicas"]] == [None]


async def test_groups_and_a_group_with_a_member(browser: Browser, world: World) -> None:
    with world.member() as client_id:
        found = await browser.get("groups", part=ONLINE)
        assert [(row["group"], row["members"]) for row in found["rows"]] == [(ONLINE, 1)]
        group = await browser.get("group", group=ONLINE)
    (member,) = group["members"]
    assert member["member"] == client_id
    assert member["stuck"] == []
    assert {row["member"] for row in group["queues"] if row["topic"] == TOPIC} == {client_id}


async def test_a_group_without_members(browser: Browser) -> None:
    found = await browser.get("group", group=OFFLINE)
    assert found["members"] == []
    assert found["lag"] == 4
    assert found["slowest"] is None


async def test_messages_by_key_id_and_time(browser: Browser, world: World) -> None:
    (row,) = await browser.get("messages", topic=TOPIC, key="k3")
    assert row["body"] == "body-3"
    for msg_id in (world.sent[2].msg_id, world.sent[2].offset_msg_id):
        (row,) = await browser.get("messages", topic=TOPIC, id=msg_id)
        assert row["body"] == "body-2"
    rows = await browser.get("messages", topic=TOPIC)
    assert sorted(row["body"] for row in rows) == [f"body-{n}" for n in range(6)]
    times = [row["stored_ms"] for row in rows]
    assert times == sorted(times)
    assert await browser.get("messages", topic=TOPIC, begin=times[-1] + 60_000) == []
    some = await browser.get("messages", topic=TOPIC, begin=times[0], end=times[0])
    assert {row["stored_ms"] for row in some} == {times[0]}


async def test_one_message_with_its_groups(browser: Browser, world: World) -> None:
    found = await browser.get("message", topic=TOPIC, id=world.sent[0].offset_msg_id)
    assert found["body"] == "body-0"
    assert OFFLINE in [track["group"] for track in found["tracks"]]


async def test_waiting_messages(browser: Browser, world: World) -> None:
    async with Producer(world.cluster.namesrv_addr, "later") as producer:
        sent = await producer.send(Message(TOPIC, b"timed", delay_ms=3_600_000))
        await producer.send(Message(TOPIC, b"delayed", delay_level=18))

    async def timers() -> list[str]:
        return [row["msg_id"] for row in (await browser.get("waiting"))["timers"]]

    assert sent.msg_id in await eventually(timers, lambda ids: bool(ids))
    (broker,) = (await browser.get("waiting"))["brokers"]
    assert broker["delayed"] >= 1


@pytest.mark.parametrize(
    ("name", "parameters", "status", "words"),
    [
        ("topic", {"topic": "ordrs"}, 404, "did you mean 'orders'"),
        ("topic", {}, 400, "parameter 'topic'"),
        ("topics", {"page": "-1"}, 400, "must be a number"),
        ("topics", {"page": "9" * 40}, 400, "must be a number"),
        ("group", {"group": NOBODY}, 404, NOBODY),
        ("message", {"topic": TOPIC, "id": "nothing"}, 404, "nothing"),
        ("messages", {"topic": TOPIC, "begin": "now"}, 400, "must be a number"),
        ("dead-letters", {"group": "../../x"}, 400, "group"),
        ("dead-letters", {"group": NOBODY}, 404, NOBODY),
    ],
)
async def test_bad_questions_get_a_clear_answer(
    browser: Browser, name: str, parameters: dict[str, str], status: int, words: str
) -> None:
    assert words in (await browser.get(name, status, **parameters))["error"]


async def test_an_unknown_cluster_and_an_unknown_path(browser: Browser) -> None:
    response = await browser.http.get("/api/c/none/topics")
    assert response.status_code == 404
    assert "does not show a cluster none" in response.json()["error"]
    assert (await browser.http.get("/api/none")).status_code == 404
    assert (await browser.http.delete("/api/session")).status_code == 405


# Actions -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dead_letters(world: World) -> list[str]:
    """Makes two dead letters of a group; returns their bodies."""
    namesrv = world.cluster.namesrv_addr

    async def make() -> None:
        async with Admin(namesrv) as admin:
            await admin.create_topic(TopicConfig("risky", 1, 1))
            await admin.put_group(world.broker, SubscriptionGroupConfig(DEAD))
            async with Producer(namesrv) as producer:
                for body in (b"first", b"second"):
                    await producer.send(Message("risky", body))
            async with PushConsumer(
                namesrv, DEAD, start="first", max_reconsume_times=0
            ) as consumer:
                consumer.on_message(lambda messages: ConsumeResult.LATER)
                await consumer.subscribe("risky", "*")
                await consumer.start()

                async def count() -> int:
                    if f"%DLQ%{DEAD}" not in await admin.topics():
                        return 0
                    offsets, _ = await admin.topic_stats(f"%DLQ%{DEAD}")
                    return sum(at.max_offset for at in offsets.values())

                await eventually(count, lambda found: found == 2)

    asyncio.run(make())
    return ["first", "second"]


async def test_a_dead_letter_is_sent_once_although_clicked_often(
    dead_letters: list[str], pages: Pages, world: World
) -> None:
    async with pages.browser() as one, pages.browser() as other:
        assert [row["group"] for row in await one.get("dead-letter-groups")] == [DEAD]
        rows = (await one.get("dead-letters", group=DEAD))["rows"]
        assert sorted(row["body"] for row in rows) == dead_letters
        body = {"group": DEAD, "place": rows[0]["place"], "to": "origin"}
        done = await asyncio.gather(*(browser.post("resend", body) for browser in (one, other) * 3))
        assert sorted(each["sent"] for each in done) == [0, 0, 0, 0, 0, 1]
        rows = (await other.get("dead-letters", group=DEAD))["rows"]
        assert [row["resent_as"] is not None for row in rows] == [True, False]
        found = await one.get("messages", topic="risky")
        assert sorted(row["body"] for row in found) == sorted([*dead_letters, rows[0]["body"]])
        actions = await one.get("actions")
    assert [row["result"] for row in actions].count("begun") == 6
    assert [row["result"] for row in actions].count("done") == 6


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"group": DEAD, "place": "broker-a:0:99", "to": "retry"}, "no dead letter"),
        ({"group": DEAD, "place": "broker-a:0:0", "to": "elsewhere"}, "retry or origin"),
        ({"group": DEAD, "place": "broker-a:0:0"}, "'to' must be a text"),
        ({"group": 7, "place": "x", "to": "retry"}, "'group' must be a text"),
        ([], "not a JSON object"),
    ],
)
async def test_a_letter_that_cannot_be_sent(
    dead_letters: list[str], browser: Browser, body: object, words: str
) -> None:
    assert words in (await browser.post("resend", body, 400))["error"]


async def test_a_group_is_moved(browser: Browser, world: World) -> None:
    body = {"group": OFFLINE, "topic": TOPIC, "to": "last"}
    done = await browser.post("reset", body)
    assert {each["queue"] for each in done["queues"]} == {0, 1}
    assert (await browser.get("group", group=OFFLINE))["lag"] == 0
    await browser.post("reset", {**body, "to": "1"})
    assert (await browser.get("group", group=OFFLINE))["lag"] > 0
    assert "not a position" in (await browser.post("reset", {**body, "to": "soon"}, 400))["error"]
    first, *_ = await browser.get("actions")
    assert first["result"].startswith("failed: ")


async def test_a_read_only_dashboard_changes_nothing(world: World, tmp_path: Path) -> None:
    async with pages_of(world, tmp_path, read_only=True) as pages, pages.browser() as browser:
        body = {"group": OFFLINE, "topic": TOPIC, "to": "first"}
        assert "readOnly" in (await browser.post("reset", body, 400))["error"]
        assert await browser.get("actions") == []


async def test_an_action_that_cannot_be_recorded_is_not_carried_out(
    browser: Browser, pages: Pages
) -> None:
    before = (await browser.get("group", group=OFFLINE))["lag"]
    pages.directory.chmod(0o500)
    log = pages.directory / "actions.jsonl"
    log.mkdir(parents=True) if not log.exists() else None
    try:
        body = {"group": OFFLINE, "topic": TOPIC, "to": "last"}
        assert "cannot write" in (await browser.post("reset", body, 500))["error"]
    finally:
        pages.directory.chmod(0o700)
    assert (await browser.get("group", group=OFFLINE))["lag"] == before


# Forged requests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"x-csrf-token": ""},
        {"x-csrf-token": "token-0"},
        {"x-csrf-token": "ä"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://evil.example.org"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
async def test_a_forged_request_is_refused(browser: Browser, headers: dict[str, str]) -> None:
    own = {"x-csrf-token": browser.csrf, "content-type": "application/json"}
    response = await browser.http.post(
        "/api/c/test/reset",
        content=b'{"group":"billing","topic":"orders","to":"first"}',
        headers={name: value.encode() for name, value in {**own, **headers}.items()},
    )
    assert response.status_code == 403, response.text
    assert (await browser.get("actions")) == []


async def test_a_request_without_a_session_is_refused(pages: Pages) -> None:
    async with pages.browser() as browser:
        browser.http.cookies.clear()
        assert "session" in (await browser.get("topics", 401))["error"]
        body = {"group": OFFLINE, "topic": TOPIC, "to": "first"}
        await browser.post("reset", body, 401)


async def test_a_body_without_end_is_refused(browser: Browser) -> None:
    await browser.post("reset", {"group": "x" * 20_000}, 413)
    response = await browser.http.post(
        "/api/c/test/reset",
        content=b"[" * 10_000,
        headers={"x-csrf-token": browser.csrf, "content-type": "application/json"},
    )
    assert response.status_code == 400
