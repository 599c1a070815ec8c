"""Escaping is off by default, as in RocketMQ; where it is missed the broker says so."""

from epochmq.broker.config.options import BrokerOptions, load_options, reach_warnings


def load(**keys: str) -> BrokerOptions:
    return load_options({**keys, "brokerIP1": "127.0.0.1"}, env={"HOME": "/data/me"})


def test_it_is_off_until_it_is_switched_on() -> None:
    assert not BrokerOptions().enable_remote_escape
    assert load(enableRemoteEscape="true").enable_remote_escape


def test_a_slave_that_may_stand_in_says_that_nothing_escapes() -> None:
    """H12."""
    slave = {"brokerRole": "SLAVE", "brokerId": "1", "enableSlaveActingMaster": "true"}
    said = [line for line in reach_warnings(load(**slave)) if "enableRemoteEscape" in line]
    assert len(said) == 1
    for others in ({**slave, "enableRemoteEscape": "true"}, {"enableSlaveActingMaster": "true"}):
        assert not any("enableRemoteEscape" in line for line in reach_warnings(load(**others)))
