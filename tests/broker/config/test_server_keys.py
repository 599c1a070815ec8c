"""Where a broker listens unless told otherwise."""

from epochmq.broker.config.feature_keys import ServerKeys


def test_only_this_machine_reaches_a_broker_nobody_configured() -> None:
    assert ServerKeys().bind_address == "127.0.0.1"
