"""The cluster under test, and a summary of what could not be had."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from .drivers.driver import Driver
from .peers.cache import UnavailableError
from .peers.cluster import Cluster, Config
from .peers.epochmq import EpochCluster
from .peers.java import JavaCluster

T = TypeVar("T")
PEER = os.environ.get("EPOCHMQ_COMPAT_PEER", "epochmq")

# Level 2 is told from the others; a retry begins at level 3 and must not take minutes.
QUICK_LEVELS = " ".join(["1s", "2s", *["1s"] * 16])


_SOAK = (
    "test_acting_clients.py",
    "test_acting_cpp.py",
    "test_acting_master.py::test_a_master_that_was_paused_takes_back_what_its_stand_in_did[False]",
    "test_acting_master.py::test_java_brokers_in_our_name_server",
    "test_acting_master.py::test_with_name_servers_of_4_and_5",
    "test_batch_queues.py::test_single_messages_among_batches[java, rebuilt]",
    "test_clients_together.py::test_broker_restart_in_the_middle[Java4]",
    "test_clients_together.py::test_offset_reset[Java",
    "test_controller_java_broker.py::test_an_operator_moves_the_master_by_javas_mqadmin",
    "test_controller_java_broker.py::test_an_unclean_clean_is_refused_and_a_listed_one_goes",
    "test_controller_java_broker.py::test_brokers_of_5_0_register_elect_and_fail_over",
    "test_controller_java_broker.py::test_javas_mqadmin_reads_our_controllers",
    "test_controller_java_broker.py::test_the_controller_leader_dies_and_the_group_does_not_notice",
    "test_controller_java_controllers.py::test_a_controller_dies_and_sends_go_on",
    "test_escape.py::test_delayed_timed_and_half_messages_and_what_is_popped[java]",
    "test_failover_clients.py::test_a_client_rides_through_a_failover[Java5]",
    "test_lock_quorum.py::test_name_servers_in_a_partition_make_no_second_stand_in",
    "test_log_export_java.py::test_a_java_master_takes_us_for_a_learner",
    "test_mqadmin_controller.py::test_elect_a_named_master[java]",
    "test_mqadmin_controller.py::test_epochs[java]",
    "test_mqadmin_controller.py::test_living_replicas_are_not_forgotten[java]",
    "test_mqadmin_controller.py::test_options[java]",
    "test_mqadmin_controller.py::test_sync_state_sets[java]",
    "test_mqadmin_controller.py::test_the_leader_is_shown[java]",
    "test_mqadmin_controller.py::test_top[java]",
    "test_one_id.py::test_the_second_does_not_start_until_the_first_is_gone",
    "test_prometheus.py",
    "test_pre_online.py::test_a_member_of_rocketmqs_comes_back_or_is_come_back_to[epochmq-java]",
    "test_replication_java.py::test_a_java_slave_of_a_controller_follows_us",
    "test_replication_java.py::test_we_follow_a_java_master_of_a_controller",
    "test_sink_java.py::test_every_row_arrives_whole_and_a_repeat_has_its_id[at-least-once]",
    "test_spark_producers.py::test_a_retry_topic_with_a_long_name_on_upstreams_broker",
    "test_store_files.py::test_java_store_with_us[5.0.0",
    "test_store_files.py::test_our_store_with_java[5.0.0",
    "test_timers.py::test_none_is_early_and_none_lost_across_a_failover",
    "test_transactions.py::test_open_transactions_change_the_broker",
)
"""Beginnings of the ids of tests that only `make soak` plays. Each takes 10 s to 2 minutes, and
another test plays the same with another client, version or cause of the failover."""

_MINUTES = frozenset(
    f"test_{name}.py"
    for name in (
        "acting_clients",
        "acting_master",
        "clients_together",
        "controller_java_broker",
        "controller_table",
        "failover_clients",
        "kill9",
        "mqadmin_controller",
        "pre_online",
        "replication_java",
        "store_files",
        "transactions",
    )
)
"""Files that are begun before the others (tests/conftest.py)."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here takes seconds and may need a third party."""
    for item in items:
        if "compat" in item.path.parts:
            item.add_marker(pytest.mark.compat)
            if item.nodeid.removeprefix("tests/compat/").startswith(_SOAK):
                item.add_marker(pytest.mark.soak)
            if item.path.name in _MINUTES:
                item.add_marker(pytest.mark.slow)


def make_cluster(config: Config | None = None) -> Cluster:
    """A cluster of the peer that the environment names: ours unless EPOCHMQ_COMPAT_PEER=java."""
    settings = {"messageDelayLevel": QUICK_LEVELS, **(config or {})}
    if PEER == "java":
        return had(lambda: JavaCluster(broker_config=settings))
    return EpochCluster(broker_config=settings)


def had(get: Callable[[], T]) -> T:
    """What ``get`` returns; skips with the reason when a third party's program cannot be had."""
    try:
        return get()
    except UnavailableError as missing:
        pytest.skip(f"cannot be had: {missing}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster a module; tests keep apart by their topics and groups."""
    with make_cluster() as running:
        yield running


@pytest.fixture(scope="class")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The test class's client, one process for all its tests."""
    with had(request.cls.client.build) as started:
        yield started


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was skipped even in a quiet run: a silent gap looks like a pass."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        if "compat" in report.nodeid:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"
            where = report.nodeid.split("::test_")[0]
            key = f"{where}: {reason.removeprefix('Skipped: ')}"
            reasons[key] = reasons.get(key, 0) + 1
    if reasons:
        terminalreporter.section("third parties: not tested")
        for key, count in sorted(reasons.items()):
            terminalreporter.line(f"{count} x {key}")
