"""What limit a request has: send-back and send go by the same one."""

import pytest

from epochmq.broker.produce.send_special import retry_limit
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.wire.codes import VERSION_3_4_9


@pytest.mark.parametrize(
    ("asked", "version", "limit"),
    [
        (None, VERSION_3_4_9, 16),
        (2, VERSION_3_4_9, 2),
        (0, VERSION_3_4_9, 0),
        (-1, VERSION_3_4_9, -1),
        (2, VERSION_3_4_9 - 1, 16),
    ],
)
def test_the_request_s_limit_counts_from_3_4_9_on(
    asked: int | None, version: int, limit: int
) -> None:
    assert retry_limit(asked, version, SubscriptionGroupConfig("G")) == limit
