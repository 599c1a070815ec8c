"""Options of POP: RocketMQ's names and defaults."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.broker.config.feature_keys import PopKeys
from epochmq.broker.config.options import load_options


def test_defaults_are_upstreams() -> None:
    keys = PopKeys()
    assert (keys.revive_queue_num, keys.pop_polling_size) == (8, 1024)
    assert (keys.max_pop_polling_size, keys.pop_polling_map_size) == (100_000, 100_000)
    assert keys.pop_from_retry_probability == 20
    assert not keys.enable_retry_topic_v2
    assert keys.retrieve_message_from_pop_retry_topic_v1
    assert not keys.enable_pop_buffer_merge
    assert (keys.pop_ck_stay_buffer_time, keys.pop_ck_stay_buffer_time_out) == (10_000, 3_000)
    assert (keys.pop_ck_max_buffer_size, keys.pop_ck_offset_max_queue_size) == (200_000, 20_000)


def test_they_are_read_from_a_file_under_upstreams_names() -> None:
    options = load_options(
        {"enablePopBufferMerge": "true", "popPollingSize": "7"}, env={"HOME": "/data/me"}
    )
    assert options.enable_pop_buffer_merge
    assert options.pop_polling_size == 7
    with pytest.raises(ConfigError):
        load_options({"popFromRetryProbability": "101"}, env={"HOME": "/data/me"})
