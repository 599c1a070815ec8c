"""Names, kinds, labels and bounds of the metrics are RocketMQ's."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.broker.broker_harness import send
from tests.broker.delay.timers import TimerBroker
from tests.broker.pop_harness import command
from tests.broker.transaction.around import end, half
from tests.broker.transaction.around import tick as end_transactions
from tests.controller.world import World, brokers
from tests.observe.rocketmq_metrics import (
    BROKER,
    CONTROLLER,
    NOT_MEASURED,
    SNAPSHOT_BOUNDS_S,
    Specified,
)

from epochmq.base.histogram import Histogram
from epochmq.observe.broker_metrics import BrokerMetrics
from epochmq.observe.controller_metrics import ControllerMetrics
from epochmq.observe.families import HISTOGRAM, Family
from epochmq.observe.store_times import ColdRead
from epochmq.wire.codes import RequestCode as Code

OPERATING = Path(__file__).parents[2] / "docs" / "OPERATING.md"
PREFIX = "rocketmq_"


def broker_families() -> dict[str, Family]:
    """Return the metrics of a broker that has samples of each histogram."""
    harness = TimerBroker()
    harness.client().ask(send(b"x"))
    harness.put(b"timed", TIMER_DELAY_SEC=30, UNIQ_KEY="U")
    harness.tick(3)
    end_transactions(harness)
    answer = harness.client().ask(half())
    assert harness.client().ask(end(answer)).code == 0
    fields = {
        "topic": "N", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "order": "false",
    }  # fmt: skip
    assert harness.client().ask(command(Code.UPDATE_AND_CREATE_TOPIC, **fields)).code == 0
    group = command(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"G"}')
    assert harness.client().ask(group).code == 0
    harness.sink.stage.count_sent()
    return named(BrokerMetrics(harness.node, lambda: (3, 4)).families())


def named(families: Iterable[Family | ColdRead | None]) -> dict[str, Family]:
    found = [family for family in families if isinstance(family, Family)]
    assert len({family.name for family in found}) == len(found)
    return {family.name: family for family in found}


def differences(found: Mapping[str, Family], wanted: Mapping[str, Specified]) -> list[str]:
    """Return what is not as it is specified."""
    wrong = []
    for name, specified in wanted.items():
        family = found.get(name)
        if family is None:
            wrong.append(f"{name}: missing")
            continue
        if family.kind != specified.kind:
            wrong.append(f"{name}: {family.kind}, not {specified.kind}")
        if sorted(family.labels) != sorted(specified.labels):
            wrong.append(f"{name}: {family.labels}, not {specified.labels}")
        if family.kind == HISTOGRAM:
            bounds = {v.bounds for _, v in family.rows if isinstance(v, Histogram)}
            if bounds != {specified.bounds}:
                wrong.append(f"{name}: {bounds}, not {specified.bounds}")
    return wrong


def test_a_broker_has_rocketmqs_metrics_and_no_others_of_its_prefix() -> None:
    found = broker_families()
    wanted = {f"{PREFIX}{name}": s for name, s in BROKER.items() if name not in NOT_MEASURED}
    # There is no message of a certain age before the log has one.
    assert differences(found, wanted) == []
    own = {name for name in found if name.startswith(PREFIX)}
    assert own - wanted.keys() == set()
    assert all(name.startswith((PREFIX, "epochmq_")) for name in found)
    bounds = [labels for labels, _ in found["rocketmq_timer_message_snapshot"].rows]
    assert [of_row[0] for of_row in bounds] == list(SNAPSHOT_BOUNDS_S)


def test_what_is_not_measured_is_in_the_documentation() -> None:
    text = OPERATING.read_text()
    assert [name for name in NOT_MEASURED if f"`{PREFIX}{name}`" not in text] == []


def test_every_metric_is_in_the_documentation() -> None:
    text = OPERATING.read_text()
    missing = []
    for family in broker_families().values():
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        if f"`{name}`" not in text:
            missing.append(name)
    assert missing == []


def test_a_controller_has_rocketmqs_metrics() -> None:
    world = World(3)
    brokers(world)
    world.run(100)
    found = named(ControllerMetrics(world.leader, {}).families())
    assert differences(found, CONTROLLER) == []
    assert {name for name in found if not name.startswith("epochmq_")} == CONTROLLER.keys()
