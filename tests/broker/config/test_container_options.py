"""The container's own file."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.broker.config.container_options import load_options, parts


def test_defaults_are_upstreams() -> None:
    options = load_options({})
    assert (options.listen_port, options.broker_config_paths) == (10811, "")
    assert options.bind_address == "127.0.0.1"


def test_paths_and_variables() -> None:
    told = {"brokerConfigPaths": "${user.home}/a:/b: :/b"}
    options = load_options(told, env={"HOME": "/home"})
    assert parts(options.broker_config_paths) == ("/home/a", "/b")


def test_a_brokers_key_is_no_key_of_the_container() -> None:
    warnings: list[str] = []
    load_options({"fetchNamesrvAddrByAddressServer": "false"}, warn=warnings.append)
    assert len(warnings) == 1
    with pytest.raises(ConfigError, match="unknown option 'brokerName'"):
        load_options({"brokerName": "a"})
