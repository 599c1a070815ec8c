"""34007: replicas know what is out in order before a consumer has it, and go on with it."""

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import ext
from tests.broker.client import RawClient
from tests.broker.group.group import InProcess, put_until_stored, until
from tests.broker.pop_harness import PopHarness, Popped, ack, batch, entry, hide, pop, popped

from epochmq.broker.group.metadata_sync import ReplicaSync
from epochmq.broker.group.replicated_tables import CopiedTable, Tables
from epochmq.broker.server.broker_server import Broker
from epochmq.broker.serving.roles import Role
from epochmq.broker.state.stamps import TAKEN_WAIT_MS
from epochmq.wire import json_tolerant
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.table_parts import decode_object


@pytest.fixture
def harness() -> PopHarness:
    made = PopHarness()
    made.put(b"a", b"b", b"c")
    return made


def asked(stamp: str | None = None, wait_ms: int = 0) -> Command:
    fields = {} if stamp is None else {"sinceStamp": stamp, "waitMillis": str(wait_ms)}
    return request(Code.GET_ALL_CONSUMER_ORDER_INFO, fields)


def test_the_table_its_changes_and_silence(harness: PopHarness) -> None:
    replica = harness.client()
    harness.pop(order="true", count=1)
    whole = replica.ask(asked())
    stamp = ext(whole)["stamp"]
    assert json_tolerant.loads(bytes(whole.body))["table"]["T@G"]["0"]["o"] == [0]
    assert ext(replica.ask(asked(stamp)))["unchanged"] == "true"
    harness.pop(group="H", order="true", count=1)
    delta = replica.ask(asked(stamp))
    assert ext(delta)["delta"] == "true"
    assert list(json_tolerant.loads(bytes(delta.body))["table"]) == ["T@H"]
    harness.node.pop.orders.drop(lambda key: key.group == "G")
    assert "delta" not in ext(replica.ask(asked(stamp)))
    assert "delta" not in ext(replica.ask(asked("7.7")))


@pytest.mark.parametrize("role", [Role.FENCED, Role.SLAVE, Role.LEARNER])
def test_with_controllers_only_the_master_is_copied(role: Role) -> None:
    """A master that died and is back has an older table than those who copied it: it may follow
    another already when they do not know of that yet (popping 20261125345)."""
    harness = PopHarness(enable_controller_mode=True)
    assert harness.client().ask(asked()).code == 0
    become(harness.node, role)
    for stamp in (None, "7.7"):
        assert harness.client().ask(asked(stamp)).code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_without_controllers_only_an_online_broker_is_copied(harness: PopHarness) -> None:
    """Slaves answer: a returning master takes their tables."""
    become(harness.node, Role.PRE_ONLINE)
    assert harness.client().ask(asked()).code == ResponseCode.SERVICE_NOT_AVAILABLE
    for role in (Role.SLAVE, Role.ACTING_MASTER, Role.MASTER):
        become(harness.node, role)
        assert harness.client().ask(asked()).code == 0


class Copier:
    """A replica that asks for the batches as it does when it runs."""

    def __init__(self, harness: PopHarness) -> None:
        self.harness = harness
        self.core = ReplicaSync(Tables(harness.node), period_ms=1_000)
        self.core.follow("master:1", 0)
        self.now = 0

    def copy(self, master: PopHarness) -> None:
        self.now += 10_000
        for fetch in self.core.due(self.now):
            if fetch.table is CopiedTable.ORDERS:
                self.core.answered(fetch, master.client().ask(fetch.command), self.now)


@pytest.mark.parametrize(
    ("controllers", "returned", "before"),
    [(True, Role.SLAVE, Role.SLAVE), (True, Role.LEARNER, Role.SLAVE),
     (True, Role.FENCED, Role.LEARNER), (False, Role.PRE_ONLINE, Role.SLAVE)],
)  # fmt: skip
def test_a_master_that_died_and_is_back_takes_no_acknowledgement_from_its_replicas(
    controllers: bool, returned: Role, before: Role
) -> None:
    """What was acknowledged before the eyes of a replica is not handed out by it again."""
    master, replica, back = (PopHarness(enable_controller_mode=controllers) for _ in range(3))
    for harness in (master, replica, back):
        harness.put(b"a", b"b", b"c")
    become(replica.node, before)
    copier = Copier(replica)
    one, two, _ = master.pop(order="true")
    saved = json_tolerant.loads(master.node.pop.orders.encode())
    for acked in (one, two):
        master.ack(acked)
    copier.copy(master)
    back.node.started_wall_ms += 9
    back.node.pop.orders.load(saved)
    back.node.pop.orders.begin(back.clock.now, back.clock.wall)
    become(back.node, returned)
    copier.copy(back)
    become(replica.node, Role.MASTER)
    replica.tick(60_000)
    assert [again.body for again in replica.pop(order="true")] == [b"c"]


def test_an_answer_in_order_waits_for_the_replicas(harness: PopHarness) -> None:
    """What a consumer holds no other broker hands out (INV-28, beyond a failover)."""
    replica, consumer = harness.client(), harness.client()
    stamp = ext(replica.ask(asked()))["stamp"]
    replica.put(asked(stamp, 1_500))
    harness.turn()
    assert replica.take() == []

    def told() -> str:
        harness.turn()
        (news,) = replica.take()
        replica.put(asked(ext(news)["stamp"], 1_500))
        harness.turn()
        return bytes(news.body).decode()

    consumer.put(pop(order="true", invisible_ms=5_000))
    harness.turn()
    assert consumer.take() == []
    assert '"popTime"' in told()
    (answer,) = consumer.take()
    one, two, _ = popped(answer)
    consumer.put(ack(one))
    harness.turn()
    assert consumer.take() == []
    assert '"cm":1' in told()
    assert [said.code for said in consumer.take()] == [0]
    consumer.put(hide(two, 9_000))
    harness.turn()
    assert consumer.take() == []
    assert '"ot"' in told()
    assert [said.code for said in consumer.take()] == [0]


def test_one_that_always_changes_is_taken_all_the_same(harness: PopHarness) -> None:
    replica, consumer = harness.client(), harness.client()
    stamp = ext(replica.ask(asked()))["stamp"]
    replica.put(asked(stamp, 1_500))
    harness.turn()
    consumer.put(pop(order="true"))
    harness.turn()
    (news,) = replica.take()
    harness.client().put(pop(group="H", order="true"))  # changed again before it asked again
    harness.turn()
    replica.put(asked(ext(news)["stamp"], 1_500))
    harness.turn()
    assert len(popped(consumer.take()[0])) == 3


def test_a_replica_that_is_late_keeps_nobody_for_ever(harness: PopHarness) -> None:
    replica, consumer = harness.client(), harness.client()
    replica.put(asked(ext(replica.ask(asked()))["stamp"], 1_500))
    consumer.put(pop(order="true"))
    harness.turn()
    harness.tick(TAKEN_WAIT_MS)
    assert len(popped(consumer.take()[0])) == 3


def test_after_losing_its_role_a_broker_does_not_answer_with_popped_messages(
    harness: PopHarness,
) -> None:
    replica, consumer = harness.client(), harness.client()
    replica.put(asked(ext(replica.ask(asked()))["stamp"], 1_500))
    consumer.put(pop(order="true"))
    harness.turn()
    become(harness.node, Role.SLAVE)
    harness.tick(TAKEN_WAIT_MS)
    (answer,) = consumer.take()
    assert (answer.code, answer.body) == (ResponseCode.SYSTEM_ERROR, b"")


def test_after_regaining_its_role_a_broker_does_not_answer_with_older_pops(
    harness: PopHarness,
) -> None:
    """Somebody else was master meanwhile, and handed out the same (popping 3336)."""
    replica, consumer = harness.client(), harness.client()
    replica.put(asked(ext(replica.ask(asked()))["stamp"], 1_500))
    consumer.put(pop(order="true"))
    harness.turn()
    become(harness.node, Role.SLAVE)
    become(harness.node, Role.MASTER)
    harness.tick(TAKEN_WAIT_MS)
    (answer,) = consumer.take()
    assert (answer.code, answer.body) == (ResponseCode.SYSTEM_ERROR, b"")


@pytest.mark.parametrize(
    "said", [ack, lambda one: hide(one, 9_000), lambda one: batch(entry(one, 0))]
)
def test_after_losing_its_role_a_broker_confirms_no_acknowledgement(
    harness: PopHarness, said: Callable[[Popped], Command]
) -> None:
    """The next master may have handed the batch out again (popping 2257)."""
    replica, consumer = harness.client(), harness.client()
    one, *_ = harness.pop(order="true", count=1)
    replica.put(asked(ext(replica.ask(asked()))["stamp"], 1_500))
    consumer.put(said(one))
    harness.turn()
    become(harness.node, Role.SLAVE)
    harness.tick(TAKEN_WAIT_MS)
    assert [answer.code for answer in consumer.take()] == [ResponseCode.SYSTEM_ERROR]


def test_what_is_out_stays_out_with_another_role(harness: PopHarness) -> None:
    """And where offset and batch were copied at different times, both count."""
    one, *_ = harness.pop(order="true", invisible_ms=5_000)
    harness.ack(one)
    other = PopHarness()
    other.put(b"a", b"b", b"c")
    become(other.node, Role.SLAVE)
    told = decode_object(bytes(harness.client().ask(asked()).body))
    Tables(other.node).apply_orders(told, delta=False)
    other.node.offsets.commit("G", "T", 0, 0, other.clock.wall)  # older than the batch
    become(other.node, Role.MASTER)
    assert other.offset() == 1
    assert other.pop(order="true") == []
    other.tick(5_000)
    assert [again.body for again in other.pop(order="true")] == [b"b", b"c"]
    Tables(other.node).apply_orders(told, delta=False)  # a master's own word counts
    assert other.pop(order="true") == []
    with pytest.raises(ValueError, match="no table"):
        Tables(other.node).apply_orders({}, delta=False)


def test_a_batch_whose_offset_did_not_come_says_where_the_group_is(harness: PopHarness) -> None:
    """Else the group repeats what is acknowledged, or skips what is not (popping seed 3034)."""
    one, *_ = harness.pop(order="true", count=2)
    harness.ack(one)
    other = PopHarness()
    other.put(b"a", b"b", b"c")
    become(other.node, Role.SLAVE)
    told = decode_object(bytes(harness.client().ask(asked()).body))
    Tables(other.node).apply_orders(told, delta=False)
    become(other.node, Role.MASTER)
    other.tick(60_000)
    assert [again.body for again in other.pop(order="true", initMode=1)] == [b"b", b"c"]


def test_an_attempt_gets_its_batch_whole_though_it_asks_for_less(harness: PopHarness) -> None:
    """Else what it has in its hands besides goes to the next one (popping 5141)."""
    harness.pop(order="true", attemptId="a")
    one, *rest = harness.pop(order="true", attemptId="a", count=1)
    assert [again.body for again in (one, *rest)] == [b"a", b"b", b"c"]
    harness.ack(one)
    assert harness.pop(order="true", attemptId="b") == []


def test_a_deleted_topic_or_group_has_no_batches(harness: PopHarness) -> None:
    harness.pop(order="true")
    harness.client().ask(request(Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"}))
    assert len(harness.node.pop.orders) == 0
    harness.topic("T", queues=1)
    harness.put(b"a")
    harness.pop(order="true")
    gone = {"groupName": "G", "cleanOffset": "true"}
    harness.client().ask(request(Code.DELETE_SUBSCRIPTIONGROUP, gone))
    assert len(harness.node.pop.orders) == 0


# A whole group -------------------------------------------------------------------------------


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[InProcess]:
    made = InProcess(tmp_path)
    try:
        yield made
    finally:
        await made.stop()


async def popped_of(broker: Broker, **more: object) -> list[Popped]:
    client = await RawClient.connect(broker.port)
    born = {"bornTime": int(time.time() * 1000), "order": "true", "queueId": 0}
    try:
        return popped(await client.ask(pop(**{**born, **more})))
    finally:
        await client.close()


def has_tables(broker: Broker) -> bool:
    assert broker.member is not None
    return broker.member.sync.core.ready


def sees_everything(broker: Broker) -> bool:
    """Whether its replicas have confirmed all that it has: less is not handed out."""
    pointers = broker.node.store.pointers
    return pointers.dispatched == pointers.confirmed == pointers.appended


async def test_a_failover_in_the_middle_keeps_the_order(group: InProcess) -> None:
    """The batch that is out blocks its queue at the next master as well; its handles hold."""
    await group.start(all_ack_in_sync_state_set=True)
    first = await group.whole()
    for body in (b"a", b"b", b"c"):
        await put_until_stored(first, body)
    slaves = [one for one in group.brokers if one is not first]
    for slave in slaves:
        await until(lambda slave=slave: has_tables(slave))
    one, two = await popped_of(first, count=2, invisible_ms=60_000)
    client = await RawClient.connect(first.port)
    assert (await client.ask(ack(two))).code == 0
    await client.close()
    group.brokers.remove(first)
    await first.stop(grace_ms=0)
    second = await group.master()
    await until(lambda: sees_everything(second))
    assert await popped_of(second) == []
    client = await RawClient.connect(second.port)
    answer = await client.ask(ack(one))
    await client.close()
    assert answer.code == 0, answer.remark
    assert [left.body for left in await popped_of(second)] == [b"c"]
    assert second.node.offsets.get("G", "T", 0) == 2
