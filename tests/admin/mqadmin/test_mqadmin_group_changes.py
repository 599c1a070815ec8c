"""Creating, changing and deleting consumer groups."""

from pathlib import Path

import pytest
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.admin.mqadmin.mqadmin_group_changes import group_text, parse_policy
from epochmq.base.errors import UsageError
from epochmq.model.group import SubscriptionGroupConfig

TEXT = (
    "SubscriptionGroupConfig{groupName=offgroup, consumeEnable=true, consumeFromMinEnable=false,"
    " consumeBroadcastEnable=true, consumeMessageOrderly=false, retryQueueNums=1,"
    " retryMaxTimes=16, groupRetryPolicy=GroupRetryPolicy{type=CUSTOMIZED,"
    " exponentialRetryPolicy=null, customizedRetryPolicy=null}, brokerId=0,"
    " whichBrokerWhenConsumeSlowly=1, notifyConsumerIdsChangedEnable=true, groupSysFlag=0,"
    " consumeTimeoutMinute=15, subscriptionDataSet=null, attributes={}}"
)


def test_on_a_cluster_and_deleted(world: World) -> None:
    ran = world.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "offgroup", "-d", "true")
    assert ran.lines == [f"create subscription group to {world.broker} success.", TEXT]
    ran = world.mqadmin("deleteSubGroup", "-c", "DefaultCluster", "-g", "offgroup")
    assert (ran.code, ran.lines) == (
        0,
        [
            f"delete subscription group [offgroup] from broker [{world.broker}]"
            " in cluster [DefaultCluster] success."
        ],
    )


def test_on_one_broker(world: World) -> None:
    args = ("-b", world.broker, "-g", "g2", "-r", "3", "-m", "true", "-o", "true", "-a", "false")
    (row,) = world.mqadmin("updateSubGroup", *args, "--output", "json").rows
    assert (row["broker"], row["retryMaxTimes"]) == (world.broker, 3)
    assert row["consumeMessageOrderly"] is True
    assert row["notifyConsumerIdsChangedEnable"] is False
    ran = world.mqadmin("deleteSubGroup", "-b", world.broker, "-g", "g2", "-r", "true")
    assert ran.lines == [f"delete subscription group [g2] from broker [{world.broker}] success."]


def test_policies() -> None:
    assert "groupRetryPolicy=GroupRetryPolicy{type=CUSTOMIZED," in group_text(
        SubscriptionGroupConfig("g")
    )
    policy = parse_policy('{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1,"max":9}}')
    text = group_text(SubscriptionGroupConfig("g", group_retry_policy=policy))
    assert "exponentialRetryPolicy=ExponentialRetryPolicy{initial=1, max=9, multiplier=2}" in text
    policy = parse_policy('{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1,2]}}')
    text = group_text(SubscriptionGroupConfig("g", group_retry_policy=policy))
    assert "customizedRetryPolicy=CustomizedRetryPolicy{next=[1, 2]}" in text
    for wrong in ("", "{", '{"customizedRetryPolicy":{"next":"x"}}'):
        with pytest.raises(UsageError, match="cannot be read"):
            parse_policy(wrong)


def test_wrong_use(world: World) -> None:
    assert world.mqadmin("updateSubGroup", "-g", "g").code == 2
    assert world.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "a b").code == 1
    assert world.mqadmin("deleteSubGroup", "-g", "g").code == 2


def test_a_list_of_groups(world: World, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text('[{"groupName":"l1","retryMaxTimes":3},{"groupName":"l2"}]')
    ran = world.mqadmin("updateSubGroupList", "-b", world.broker, "-f", str(file))
    assert ran.lines == [
        f"submit batch of group config to {world.broker} success, please check the result later."
    ]
    lines = world.mqadmin("getConsumerConfig", "-g", "l1").lines
    assert lines[:2] == [
        f"{'=' * 29}DefaultCluster:broker-a{'=' * 29}",
        f"{'groupName':<40}=  l1",
    ]
    assert f"{'retryMaxTimes':<40}=  3" in lines
    file.write_text('[{"groupName":"a b"}]')
    assert world.mqadmin("updateSubGroupList", "-b", world.broker, "-f", str(file)).code != 0


def test_offsets_are_copied_to_another_group(world: World) -> None:
    lines = world.mqadmin("cloneGroupOffset", "-s", OFFLINE, "-d", "cloned", "-t", TOPIC).lines
    assert lines == [
        f"clone group offset success. srcGroup[{OFFLINE}], destGroup=[cloned], topic[{TOPIC}]"
    ]

    def offsets(group: str) -> list[object]:
        ran = world.mqadmin("consumerProgress", "-g", group, "-t", TOPIC, "-o", "json")
        return [(row["queue"], row["consumer_offset"]) for row in ran.rows if "queue" in row]

    assert offsets("cloned") == offsets(OFFLINE) != []
    assert world.mqadmin("cloneGroupOffset", "-s", "nobody", "-d", "x", "-t", TOPIC).code == 5
