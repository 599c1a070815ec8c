"""The options of a write."""

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.sink_options import parse_sink

NAMESRV = {"nameserver": "127.0.0.1:9876"}


def test_defaults_and_what_spark_adds() -> None:
    options = parse_sink({**NAMESRV, "path": "x", "checkpointLocation": "y", "queryName": "z"})
    assert (options.name_server, options.topic, options.drops_repeats) == (
        "127.0.0.1:9876",
        "",
        True,
    )
    assert (options.sink_id, options.batch_id, options.order_by) == ("", None, ())


def test_every_option_is_heeded() -> None:
    options = parse_sink(
        {
            "namesrvAddr": "a:1;b:2",
            "TOPIC": "T",
            "guarantee": "at-least-once",
            "sinkId": "s",
            "batchId": "7",
            "producerGroup": "g",
            "batchSize": "1",
            "batchBytes": "64k",
            "bufferBytes": "1m",
            "maxMessageBytes": "1k",
            "sendTimeoutMs": "1s",
            "failoverTimeoutMs": "2m",
            "orderBy": "a, b",
            "orderByBytes": "2m",
            "tls.enable": "true",
            "tls.client.authServer": "false",
        }
    )
    assert (options.name_server, options.topic, options.drops_repeats) == ("a:1;b:2", "T", False)
    assert (options.sink_id, options.batch_id, options.producer_group) == ("s", 7, "g")
    assert (options.batch_size, options.batch_bytes, options.buffer_bytes) == (1, 65536, 1 << 20)
    assert (options.max_message_bytes, options.order_by_bytes) == (1024, 2 << 20)
    assert (options.send_timeout_ms, options.failover_timeout_ms) == (1_000, 120_000)
    assert options.order_by == ("a", "b")
    assert (options.tls.tls_enable, options.tls.tls_client_auth_server) == (True, False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "nameServer is missing"),
        ({"nameServer": "here"}, "not a name server address"),
        ({"topik": "T"}, "no option 'topik' .did you mean 'topic'"),
        ({"topic": "a b"}, "forbidden character"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "belongs to the brokers"),
        ({"batchSize": "0"}, "batchSize='0'.*within 1"),
        ({"batchBytes": "5m"}, "batchBytes is more than 4194304"),
        ({"guarantee": "exactly-once"}, "effectively-once, at-least-once"),
        ({"sinkId": "a\x01"}, "printable"),
        ({"batchId": "-1"}, "batchId"),
        ({"delayLevels": "0"}, "delayLevels='0'"),
        ({"createTopics": "no"}, "createTopics='no': it must be true or false"),
        ({"tls.enable": "true", "tls.client.trustCertPath": "/nowhere"}, "nowhere"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_sink(given if "nameServer" in given or not given else {**NAMESRV, **given})
