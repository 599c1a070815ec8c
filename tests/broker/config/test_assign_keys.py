"""Options of shares."""

from epochmq.broker.config.options import load_options


def test_rocketmqs_keys_and_defaults() -> None:
    options = load_options({}, env={})
    assert options.server_load_balancer_enable
    assert (options.default_message_request_mode, options.default_pop_share_queue_num) == (
        "PULL",
        -1,
    )
    options = load_options({"defaultMessageRequestMode": "POP"}, env={})
    assert options.default_message_request_mode == "POP"
