"""RocketMQ's options as replication and membership take them."""

from dataclasses import fields as fields_of
from pathlib import Path

import pytest

from epochmq.base.errors import ConfigError
from epochmq.base.limits import HA_BATCH_BYTES_MAX
from epochmq.base.options import describe
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.replica_keys import ReplicaKeys
from epochmq.broker.group.member_options import (
    FIELDS,
    changed_options,
    epoch_file,
    identity_file,
    membership_options,
    replication_options,
    waits_for_replicas,
)
from epochmq.replication.options import ReplicationOptions


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


MUTABLE = sorted(row.field for row in describe(ReplicaKeys) if row.mutable)


@pytest.mark.parametrize("field", MUTABLE)
def test_each_option_that_may_change_reaches_a_replication_that_runs(field: str) -> None:
    """But for `slaveTimeout`, which every send reads from the broker's options."""
    if field == "slave_timeout":
        return
    running = replication_options(BrokerOptions(), upgraded=True)
    changed = changed_options(running, BrokerOptions(**{field: 7}))
    assert changed != running
    assert changed.adopt_plain_log, "what may not change stays"


def test_every_option_has_a_field() -> None:
    fields = {field.name for field in fields_of(ReplicationOptions)}
    assert fields >= FIELDS.keys()
    assert {row.field for row in describe(BrokerOptions)} >= set(FIELDS.values())


def test_the_size_of_frames_is_heeded() -> None:
    small = replication_options(BrokerOptions(ha_transfer_batch_size=32_768), upgraded=False)
    assert small.batch_bytes == 32_768
    assert replication_options(BrokerOptions(), upgraded=False).batch_bytes == HA_BATCH_BYTES_MAX


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
def test_which_options_wait_for_replicas(options: dict[str, object], waits: bool) -> None:
    assert waits_for_replicas(BrokerOptions(**options)) is waits  # type: ignore[arg-type]


FILES = {
    "store_path_epoch_file": (epoch_file, "epochFileCheckpoint", "epochFileCheckpoint.bak"),
    "store_path_broker_identity": (identity_file, "brokerIdentity", "brokerIdentity-state"),
}


@pytest.mark.parametrize("option", FILES)
@pytest.mark.parametrize("root", ["store-0", "./store-0", "../here/store-0", None])
def test_files_lie_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, root: str | None, caplog
) -> None:
    """Relative ones are taken from the working directory, as in RocketMQ's files and as the log is;
    those that were made below the root instead are found as well."""
    named, usual, found_at = FILES[option]
    here = tmp_path / "here"
    store = here / "store-0"
    store.mkdir(parents=True)
    monkeypatch.chdir(here)

    def name_of(path: str) -> str:
        given = {"store_path_root_dir": root or str(store), option: path}
        return named(BrokerOptions(**given))  # type: ignore[arg-type]

    assert name_of("") == usual
    for path in ("store-0/a/b", "./store-0/a/b", str(store / "a/b")):
        assert name_of(path) == "a/b"
    for path in ("a/b", "store-01/b", str(tmp_path / "b"), "store-0"):
        with pytest.raises(ConfigError, match="must lie under storePathRootDir"):
            name_of(path)
    (store / "store-0").mkdir()
    (store / "store-0" / found_at).write_bytes(b"x")
    assert caplog.messages == []
    assert name_of(f"./store-0/{usual}") == f"store-0/{usual}"
    (said,) = caplog.messages
    assert f"stands for {store / usual}" in said
    (store / found_at).write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"both .* are there"):
        name_of(f"./store-0/{usual}")
    assert name_of(str(store / usual)) == usual
