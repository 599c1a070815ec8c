"""Escaping is off by default, as in RocketMQ."""

from epochmq.broker.options import BrokerOptions, load_options


def test_it_is_off_until_it_is_switched_on() -> None:
    assert not BrokerOptions().enable_remote_escape
    assert load_options({"enableRemoteEscape": "true"}, env={}).enable_remote_escape
