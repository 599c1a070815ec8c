"""Options of slave acting master: RocketMQ's names and defaults, and what an operator is told."""

from pathlib import Path

import pytest

from epochmq.base.errors import ConfigError
from epochmq.broker.config.feature_keys import acting_warnings
from epochmq.broker.config.options import BrokerOptions, load_options, reach_warnings
from epochmq.nameserver.options import NamesrvOptions


def load(**keys: str) -> BrokerOptions:
    return load_options(keys, env={"HOME": "/data/me"})


def test_defaults_are_upstreams() -> None:
    options = load()
    assert not options.enable_slave_acting_master
    assert options.compatible_with_old_name_srv
    assert options.broker_not_active_timeout_millis == 10_000
    assert options.sync_broker_member_group_period == 1_000
    assert options.total_replicas == 1


def test_the_operators_page_has_every_option_of_the_mode_with_its_default() -> None:
    """Seed 003's list of options, and those without which it does nothing (H12)."""
    page = (Path(__file__).parents[3] / "docs" / "OPERATING.md").read_text()
    defaults: dict[str, object] = {
        "scanNotActiveBrokerInterval": NamesrvOptions().scan_not_active_broker_interval,
        "supportActingMaster": NamesrvOptions().support_acting_master,
    }
    broker = BrokerOptions()
    for name, field in (
        ("enableSlaveActingMaster", broker.enable_slave_acting_master),
        ("enableRemoteEscape", broker.enable_remote_escape),
        ("brokerHeartbeatInterval", broker.broker_heartbeat_interval),
        ("brokerNotActiveTimeoutMillis", broker.broker_not_active_timeout_millis),
        ("sendHeartbeatTimeoutMillis", broker.send_heartbeat_timeout_millis),
        ("lockInStrictMode", broker.lock_in_strict_mode),
        ("skipPreOnline", broker.skip_pre_online),
        ("compatibleWithOldNameSrv", broker.compatible_with_old_name_srv),
        ("totalReplicas", broker.total_replicas),
        ("slaveReadEnable", broker.slave_read_enable),
    ):
        defaults[name] = field
    mode = page.split("### Slave acting master")[1].split("\n#### ")[0]
    for name, default in defaults.items():
        assert f"| `{name}` | {str(default).lower()} | " in mode


def warned(options: BrokerOptions) -> list[str]:
    return acting_warnings(
        options, is_slave=options.broker_role == "SLAVE", slave_read=options.slave_read_enable
    )


def test_defaults_that_make_the_mode_useless_are_said_at_start() -> None:
    """H12."""
    assert warned(load()) == []
    slave = {"brokerRole": "SLAVE", "brokerId": "1", "enableSlaveActingMaster": "true"}
    replicas, reading = warned(load(**slave))
    assert "totalReplicas" in replicas
    assert "slaveReadEnable" in reading
    assert warned(load(**slave, totalReplicas="2", slaveReadEnable="true")) == []
    assert len(warned(load(enableSlaveActingMaster="true"))) == 1
    assert replicas in reach_warnings(load(**slave, brokerIP1="127.0.0.1"))


def test_controllers_and_acting_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match="cannot be used with 'enableControllerMode'"):
        load(
            enableSlaveActingMaster="true",
            enableControllerMode="true",
            controllerAddr="127.0.0.1:9878",
        )
