"""SubscriptionGroupConfig."""

import msgspec

from epochmq.model.group import (
    CustomizedRetryPolicy,
    GroupRetryPolicy,
    SimpleSubscription,
    SubscriptionGroupConfig,
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
