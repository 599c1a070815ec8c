"""Options of replication and controller mode: RocketMQ's names and defaults, taken together."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.base.limits import HA_BATCH_BYTES_MAX
from epochmq.broker.config.options import BrokerOptions, load_options
from epochmq.model.host import split_addresses

CONTROLLERS = "127.0.0.1:9878;127.0.0.1:9868"


def load(**keys: str) -> BrokerOptions:
    return load_options(keys, env={"HOME": "/data/me"})


def test_defaults_are_upstreams() -> None:
    options = load()
    assert not options.enable_controller_mode
    assert options.sync_broker_metadata_period == 5000
    assert options.check_sync_state_set_period == 5000
    assert options.sync_controller_metadata_period == 10_000
    assert options.broker_heartbeat_interval == 1000
    assert options.send_heartbeat_timeout_millis == 1000
    assert options.controller_heart_beat_timeout_mills == 10_000
    assert options.broker_election_priority == 2147483647
    assert options.ha_max_time_slave_not_catchup == 15_000
    assert options.ha_transfer_batch_size == HA_BATCH_BYTES_MAX
    assert options.ha_max_gap_not_in_sync == 268_435_456
    assert options.ha_send_heartbeat_interval == 5000
    assert options.ha_housekeeping_interval == 20_000
    assert options.max_ha_transfer_byte_in_second == 104_857_600
    assert options.slave_timeout == 3000
    assert options.in_sync_replicas == options.min_in_sync_replicas == 1
    assert not options.all_ack_in_sync_state_set
    assert not options.async_learner
    assert not options.sync_from_last_file


def test_a_broker_in_controller_mode_may_say_any_role() -> None:
    """Its role and id come from the controllers."""
    options = load(
        enableControllerMode="true",
        controllerAddr=CONTROLLERS,
        brokerRole="SLAVE",
        brokerId="0",
        asyncLearner="true",
        allAckInSyncStateSet="true",
        controllerDeployedStandAlone="true",
    )
    assert options.enable_controller_mode
    assert split_addresses(options.controller_addr) == ("127.0.0.1:9878", "127.0.0.1:9868")


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"enableControllerMode": "true"}, "needs 'controllerAddr'"),
        ({"enableControllerMode": "true", "controllerAddr": " ; "}, "needs 'controllerAddr'"),
        (
            {
                "enableControllerMode": "true",
                "controllerAddr": CONTROLLERS,
                "fetchControllerAddrByDnsLookup": "true",
            },
            "one 'name:port'",
        ),
        ({"brokerRole": "SLAVE"}, "brokerId' must be more than 0"),
        ({"brokerId": "2"}, "must be 0 for a master"),
        ({"asyncLearner": "true"}, "needs 'enableControllerMode'"),
        ({"allAckInSyncStateSet": "true"}, "needs 'enableControllerMode'"),
        (
            {"minInSyncReplicas": "2", "enableAutoInSyncReplicas": "true"},
            "must not be less than 'minInSyncReplicas'",
        ),
    ],
)
def test_what_cannot_go_together_is_named(keys: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        load(**keys)


def test_a_plain_slave_is_accepted() -> None:
    options = load(brokerRole="SLAVE", brokerId="1", haMasterAddress="10.0.0.1:10912")
    assert options.broker_id == 1


def test_addresses_are_kept_once_in_order() -> None:
    assert split_addresses(" b:1 ;a:2;b:1;;") == ("b:1", "a:2")
