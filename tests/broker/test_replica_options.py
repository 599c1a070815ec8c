"""RocketMQ's options as replication and membership take them."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.broker.options import BrokerOptions
from epochmq.broker.replica_options import (
    epoch_file,
    file_in_store,
    identity_file,
    membership_options,
    replication_options,
    waits_for_replicas,
)


def test_replications_options() -> None:
    made = replication_options(
        BrokerOptions(
            all_ack_in_sync_state_set=True,
            min_in_sync_replicas=2,
            ha_max_time_slave_not_catchup=3000,
            flush_disk_type="SYNC_FLUSH",
            async_learner=True,
            ha_flow_control_enable=True,
            max_ha_transfer_byte_in_second=5000,
        ),
        upgraded=True,
    )
    assert (made.all_ack, made.min_in_sync_replicas, made.not_caught_up_ms) == (True, 2, 3000)
    assert made.sync_before_ack
    assert made.learner
    assert made.adopt_plain_log
    assert (made.flow_control, made.flow_bytes_per_second) == (True, 5000)


def test_memberships_options() -> None:
    made = membership_options(
        BrokerOptions(
            broker_name="b",
            broker_cluster_name="c",
            controller_addr="h:1; h:2;h:1",
            broker_election_priority=7,
            controller_heart_beat_timeout_mills=3000,
        ),
        address="a:1",
        ha_address="a:2",
        clean_start=False,
        incarnation="i",
        session="s",
    )
    assert made.controllers == ("h:1", "h:2")
    assert (made.priority, made.dead_after_ms, made.clean_start) == (7, 3000, False)


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({"enable_controller_mode": True}, False),
        ({"enable_controller_mode": True, "all_ack_in_sync_state_set": True}, True),
        ({"enable_controller_mode": True, "in_sync_replicas": 2}, True),
        ({"broker_role": "SYNC_MASTER"}, False),
        ({"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}, True),
        ({"broker_role": "ASYNC_MASTER", "in_sync_replicas": 2}, False),
    ],
)
def test_who_waits_for_replicas(options: dict[str, object], waits: bool) -> None:
    """facts/store.md 4.2."""
    assert waits_for_replicas(BrokerOptions(**options)) is waits  # type: ignore[arg-type]


def test_files_lie_in_the_store() -> None:
    options = BrokerOptions(store_path_root_dir="/data/store")
    assert epoch_file(options) == "epochFileCheckpoint"
    assert identity_file(options) == "brokerIdentity"
    assert file_in_store("k", "/data/store", "/data/store/a/b", "x") == "a/b"
    assert file_in_store("k", "/data/store", "a/b", "x") == "a/b"
    with pytest.raises(ConfigError, match="option 'k' must lie under storePathRootDir"):
        file_in_store("k", "/data/store", "/elsewhere/b", "x")
