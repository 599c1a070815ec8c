"""What a name server measures of the brokers that registered."""

from tests.nameserver.world import Asker, configs, told
from tests.observe.test_families import samples_of

from epochmq.observe.families import write_families
from epochmq.observe.name_server_metrics import NameServerMetrics

GROUP = {"cluster": "c", "broker_set": "b"}
OWN = {"node_type": "namesrv", "node_id": "127.0.0.1:9876"}


def scrape(it: Asker) -> dict[str, float]:
    """Return the values by name; there is one group at most."""
    metrics = NameServerMetrics(it.node, "127.0.0.1:9876", lambda: 0)
    families = [family for family in metrics.families() if family is not None]
    samples = samples_of(b"".join(write_families(families, metrics.common_labels(), 100)))
    found = {}
    for (name, labels), value in samples.items():
        assert dict(labels) in (OWN, {**OWN, **GROUP})
        found[name] = value
    return found


def test_nobody_registered() -> None:
    assert scrape(Asker()) == {
        "epochmq_namesrv_topics": 0,
        "epochmq_namesrv_broker_connections": 0,
        "epochmq_metrics_samples_left_out": 0,
    }


def test_a_group_with_and_without_a_master() -> None:
    it = Asker()
    it.node.table.register(told(1, topics=configs("A", "B")), 0)
    found = scrape(it)
    assert found["epochmq_namesrv_brokers"] == 1
    assert found["epochmq_namesrv_has_master"] == 0
    it.node.table.register(told(0, topics=configs("A", "B")), 0)
    found = scrape(it)
    assert found["epochmq_namesrv_brokers"] == 2
    assert found["epochmq_namesrv_has_master"] == 1
    assert found["epochmq_namesrv_topics"] == 2


def test_a_name_server_is_ready_when_it_answers_routes() -> None:
    now = 0
    it = Asker(need_wait_for_service=True, wait_seconds_for_service=5)
    checks = NameServerMetrics(it.node, "127.0.0.1:9876", lambda: now).checks()
    now = 4_999
    assert checks["/-/healthy"]().ok
    assert "time to register" in str(checks["/-/ready"]().facts["reason"])
    now = 5_000
    assert checks["/-/ready"]().ok
    checks = NameServerMetrics(Asker().node, "127.0.0.1:9876", lambda: 0).checks()
    assert checks["/-/ready"]().ok
