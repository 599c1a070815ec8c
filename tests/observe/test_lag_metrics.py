"""The lag of consumer groups: which messages count, and under which labels."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.broker_harness import BrokerHarness, send
from tests.broker.pop_harness import PopHarness
from tests.observe.test_families import samples_of

from epochmq.broker.config.options import BrokerOptions
from epochmq.model.group import SimpleSubscription, SubscriptionData, SubscriptionGroupConfig, build
from epochmq.model.tags import java_hash
from epochmq.observe import lag_metrics
from epochmq.observe.broker_metrics import BrokerMetrics
from epochmq.observe.families import Family, write_families
from epochmq.observe.lag_metrics import LagMeter
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

G, T = "G", "T"
LAG, FLYING, READY = (f"rocketmq_consumer_{name}_messages" for name in ("lag", "inflight", "ready"))
TAGS = ("A", "B", "C", "")


def put(harness: BrokerHarness, tags: Iterator[str] | list[str] | str, topic: str = T) -> None:
    """Store one message for each tag in queue 0."""
    client = harness.client()
    client.put(
        *(
            send(b"x", topic=topic, properties={"TAGS": tag} if tag else {"UNIQ_KEY": "U"})
            for tag in tags
        )
    )
    harness.turn()
    assert {answer.code for answer in client.take()} <= {0}


def subscribe(harness: BrokerHarness, wanted: SubscriptionData) -> None:
    """Add a member of the group by its heartbeat."""
    row = {
        "topic": wanted.topic, "subString": wanted.sub_string, "subVersion": 1,
        "tagsSet": wanted.tags_set, "codeSet": sorted(wanted.code_set),
        "expressionType": wanted.expression_type,
    }  # fmt: skip
    body = {
        "clientID": "c",
        "consumerDataSet": [
            {
                "groupName": G, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [row],
            }
        ],
        "producerDataSet": [],
    }  # fmt: skip
    beat = Command(Code.HEART_BEAT, body=json.dumps(body).encode(), language="JAVA", version=401)
    client = harness.client()
    client.put(beat)
    harness.turn()
    assert 0 in [each.code for each in client.take()]  # beside a notice that the group changed


def set_option(harness: BrokerHarness, key: str, value: str) -> None:
    """Change an option at runtime."""
    asked = Command(Code.UPDATE_BROKER_CONFIG, body=f"{key}={value}".encode())
    assert harness.client().ask(asked).code == 0


def read_to(harness: BrokerHarness, *, committed: int, pulled: int, topic: str = T) -> None:
    harness.node.offsets.commit(G, topic, 0, committed, harness.clock.wall_ms())
    harness.node.stats.read(topic, 0, G, 1, 1, next_offset=pulled)


def gauges(harness: BrokerHarness, topic: str = T, is_retry: bool = False) -> tuple[float, ...]:
    """Return lag, in flight and ready."""
    families = [
        f for f in BrokerMetrics(harness.node, lambda: (0, 0)).families() if isinstance(f, Family)
    ]
    found = samples_of(b"".join(write_families(families, {}, 10_000)))
    labels = {
        "consumer_group": G, "topic": topic, "is_retry": str(is_retry).lower(), "is_system": "false"
    }  # fmt: skip
    own = tuple(sorted(labels.items()))
    return tuple(found[name, own] for name in (LAG, FLYING, READY))


# Filters -------------------------------------------------------------------------------------


@given(
    tags=st.lists(st.sampled_from(TAGS), max_size=40),
    wanted=st.sets(st.sampled_from(TAGS[:3]), min_size=1),
    cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_only_the_tags_of_the_subscription_count(
    tags: list[str], wanted: set[str], cuts: tuple[int, int]
) -> None:
    committed, pulled = sorted(min(cut, len(tags)) for cut in cuts)
    harness = BrokerHarness()
    harness.topic(T, 1)
    if tags:
        put(harness, tags)
    subscribe(harness, build(T, "||".join(sorted(wanted))))
    read_to(harness, committed=committed, pulled=pulled)
    flying = sum(tag in wanted for tag in tags[committed:pulled])
    ready = sum(tag in wanted for tag in tags[pulled:])
    assert gauges(harness) == (flying + ready, flying, ready)


@pytest.mark.parametrize(
    ("subscription", "option"),
    [
        (build(T, "*"), None),
        (build(T, "a > 1", "SQL92"), None),
        (build("other", "A"), None),
        (None, None),
        (build(T, "A"), ("estimateAccumulation", "false")),
        (build(T, "A"), ("useStaticSubscription", "true")),
    ],
)
def test_without_a_filter_by_tags_every_message_counts(
    subscription: SubscriptionData | None, option: tuple[str, str] | None
) -> None:
    harness = BrokerHarness()
    harness.topic(T, 1)
    put(harness, "ABAB")
    read_to(harness, committed=1, pulled=2)
    if subscription:
        subscribe(harness, subscription)
    if option:
        set_option(harness, *option)
    assert gauges(harness) == (3, 1, 2)


@pytest.mark.parametrize(("expression", "kind", "ready"), [("A", "TAG", 2), ("", "SQL92", 4)])
def test_the_subscription_in_the_groups_configuration(
    expression: str, kind: str, ready: int
) -> None:
    """Also while the group has no member; what the members say does not count then."""
    harness = BrokerHarness(use_static_subscription=True)
    harness.topic(T, 1)
    put(harness, "ABAB")
    subscribe(harness, build(T, "C"))
    rows = [SimpleSubscription("other", "TAG", "B"), SimpleSubscription(T, kind, expression)]
    config = SubscriptionGroupConfig(G, subscription_data_set=rows)
    harness.node.groups.table[G] = config
    read_to(harness, committed=0, pulled=0)
    assert gauges(harness) == (ready, 0, ready)


# Estimates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "options", "ready"),
    [
        ("AB" * 50, {"max_consume_queue_scan": 10}, 50),
        ("A" * 10 + "B" * 90, {"max_consume_queue_scan": 20}, 50),
        ("A" * 10 + "B" * 90, {"max_consume_queue_scan": 100}, 10),
        ("AAAB" * 25, {"sample_count_threshold": 2}, 75),
        ("B" * 100, {"max_consume_queue_scan": 7}, 0),
        ("A" * 100, {"max_consume_queue_scan": 7}, 100),
    ],
)
def test_the_share_of_the_first_messages_is_that_of_all(
    tags: str, options: dict[str, int], ready: int
) -> None:
    harness = BrokerHarness(**options)
    harness.topic(T, 1)
    put(harness, tags)
    subscribe(harness, build(T, "A"))
    read_to(harness, committed=0, pulled=0)
    assert gauges(harness)[2] == ready


def test_one_scrape_examines_a_limited_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_metrics, "SCAN_UNITS_MAX", 60)
    monkeypatch.setattr(lag_metrics, "SAMPLE_UNITS", 10)
    harness = BrokerHarness()
    subscribe(harness, build("T0", "A"))
    # The first 10 messages of each topic are of one kind, the next 40 of another.
    for number in range(3):
        topic = f"T{number}"
        harness.topic(topic, 1)
        put(harness, "A" * 10 + "B" * 40, topic)
        read_to(harness, committed=0, pulled=0, topic=topic)
    group = harness.node.consumers.groups[G]
    for number in range(3):
        group.subscriptions[f"T{number}"] = build(f"T{number}", "A")
    # 50 and 50 are examined before the limit is known to be reached, 10 of the last topic.
    assert [gauges(harness, f"T{number}")[2] for number in range(3)] == [10, 10, 50]


def test_the_count_of_a_long_queue_is_done_in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_metrics, "SCAN_STEP", 8)
    harness = BrokerHarness()
    harness.topic(T, 1)
    put(harness, "AB" * 40)
    subscribe(harness, build(T, "A"))
    read_to(harness, committed=0, pulled=30)
    asked: list[int] = []
    real = harness.node.store.tags_codes

    def counted(topic: str, queue_id: int, offset: int, count: int) -> list[int]:
        asked.append(count)
        return real(topic, queue_id, offset, count)

    monkeypatch.setattr(harness.node.store, "tags_codes", counted)
    steps = 0
    for _ in LagMeter(harness.node, {}).measure(T, G):
        steps += 1
        assert len(asked) <= steps
    assert asked == [8, 8, 8, 6, 8, 8, 8, 8, 8, 8, 2]
    assert steps == len(asked) + 1


def test_messages_that_are_deleted_do_not_spoil_the_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The offset of a group may be far before the first message of the queue."""
    harness = BrokerHarness()
    harness.topic(T, 1)
    put(harness, "B" * 10 + "A" * 10)
    subscribe(harness, build(T, "A"))
    read_to(harness, committed=0, pulled=0)
    monkeypatch.setattr(harness.node.store, "queue_bounds", lambda topic, queue_id: (10, 20))
    assert gauges(harness)[2] == 10


def test_tags_codes_of_a_queue() -> None:
    harness = BrokerHarness()
    harness.topic(T, 1)
    put(harness, "AB")
    codes = harness.node.store.tags_codes
    assert codes(T, 0, 0, 9) == [java_hash("A"), java_hash("B")]
    assert codes(T, 0, 1, 1) == [java_hash("B")]
    for queue_id, offset in ((0, 2), (0, -1), (9, 0)):
        assert codes(T, queue_id, offset, 1) == []


# POP -----------------------------------------------------------------------------------------


def failed_pops(harness: PopHarness) -> None:
    """Let a popped message become a retry."""
    assert harness.pop(invisible_ms=10_000)
    for _ in range(30):
        harness.tick(1_000)


def test_retries_of_pop_have_the_name_of_their_topic() -> None:
    harness = PopHarness()
    harness.put(b"1", b"2")
    assert len(harness.pop(count=2, invisible_ms=10_000)) == 2
    harness.tick()
    assert gauges(harness) == (2, 2, 0)
    assert gauges(harness, is_retry=True) == (0, 0, 0)
    for _ in range(30):
        harness.tick(1_000)
    assert gauges(harness) == (0, 0, 0)
    assert len(harness.pop(count=1)) == 1
    harness.tick()
    assert gauges(harness, is_retry=True) == (2, 1, 1)


def test_retry_topics_of_both_kinds_have_one_sample() -> None:
    harness = PopHarness()
    for v2 in ("false", "true"):
        set_option(harness, "enableRetryTopicV2", v2)
        harness.put(b"x")
        failed_pops(harness)
        while harness.pop():  # also from the other retry topic
            pass
        harness.tick()
    assert {"%RETRY%G_T", "%RETRY%G+T"} <= harness.node.topics.table.keys()
    assert gauges(harness, is_retry=True)[1] == 2


def test_the_retry_topic_of_a_group_that_pulls_keeps_its_name() -> None:
    harness = BrokerHarness()
    harness.topic("%RETRY%G", 1)
    put(harness, "AB", "%RETRY%G")
    subscribe(harness, build("%RETRY%G", "*"))
    read_to(harness, committed=1, pulled=1, topic="%RETRY%G")
    assert gauges(harness, "%RETRY%G", is_retry=True) == (1, 0, 1)


def test_messages_out_tell_pulls_from_pops_and_pops_from_retries() -> None:
    harness = PopHarness()
    harness.put(b"1", b"2", b"3")
    harness.node.stats.read(T, 0, G, 5, 500, next_offset=3)
    failed = harness.pop(count=3, invisible_ms=10_000)
    assert len(failed) == 3
    for _ in range(30):
        harness.tick(1_000)
    again = harness.pop(count=2)
    assert len(again) == 2
    families = {
        f.name: {tuple(labels): value for labels, value in f.rows}
        for f in BrokerMetrics(harness.node, lambda: (0, 0)).families()
        if isinstance(f, Family) and f.name.endswith("_out")
    }
    plain = (T, G, "false")
    assert families["rocketmq_messages_out"] == {
        plain: 5, (*plain, "false"): 3, (*plain, "true"): 2,
    }  # fmt: skip
    sizes = families["rocketmq_throughput_out"]
    assert sizes[plain] == 500
    assert sizes[*plain, "true"] == sum(one.message.size for one in again)
    harness.node.stats.forget(T)
    assert harness.node.stats.pops == {}


def test_defaults_are_rocketmqs() -> None:
    options = BrokerOptions()
    assert options.estimate_accumulation
    assert not options.use_static_subscription
    assert (options.max_consume_queue_scan, options.sample_count_threshold) == (20_000, 5_000)
