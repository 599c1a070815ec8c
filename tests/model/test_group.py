"""SubscriptionGroupConfig."""

import msgspec
import pytest

from epochmq.model.group import (
    CustomizedRetryPolicy,
    GroupRetryPolicy,
    SimpleSubscription,
    SubscriptionGroupConfig,
    is_tried_out,
)


def test_defaults_are_upstream_s_and_nulls_are_left_out() -> None:
    found = msgspec.json.decode(msgspec.json.encode(SubscriptionGroupConfig("g")))
    assert found == {
        "groupName": "g",
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True,
        "consumeMessageOrderly": False,
        "retryQueueNums": 1,
        "retryMaxTimes": 16,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True,
        "groupSysFlag": 0,
        "consumeTimeoutMinute": 15,
        "attributes": {},
    }


def test_a_4_9_body_and_a_5_3_body_are_read() -> None:
    old = msgspec.json.decode(b'{"groupName":"g","retryMaxTimes":3}', type=SubscriptionGroupConfig)
    assert old == SubscriptionGroupConfig("g", retry_max_times=3)
    assert not old.subscription_data_set
    new = msgspec.json.decode(
        b'{"groupName":"g","subscriptionDataSet":[{"topic":"T"}],"groupRetryPolicy":'
        b'{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1,2]},'
        b'"exponentialRetryPolicy":null}}',
        type=SubscriptionGroupConfig,
    )
    assert new.subscription_data_set == [SimpleSubscription("T")]
    assert new.group_retry_policy.customized_retry_policy == CustomizedRetryPolicy([1, 2])
    assert new.group_retry_policy.exponential_retry_policy is None


def test_two_configs_share_no_retry_policy() -> None:
    one, other = SubscriptionGroupConfig("a"), SubscriptionGroupConfig("b")
    one.group_retry_policy.type = "EXPONENTIAL"
    assert other.group_retry_policy == GroupRetryPolicy()


@pytest.mark.parametrize(
    ("retries", "allowed", "dead"),
    [(0, 16, False), (15, 16, False), (16, 16, True), (17, 16, True), (0, 0, True), (0, -1, True)],
)
def test_after_as_many_retries_as_allowed_it_is_a_dead_letter(
    retries: int, allowed: int, dead: bool
) -> None:
    assert is_tried_out(retries, allowed) is dead
