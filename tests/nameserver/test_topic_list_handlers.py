import json

from tests.nameserver.world import Asker, text

from epochmq.model.topic import TopicConfig


def names(asker: Asker, code: int, **ext: str) -> list[str]:
    found = json.loads(text(asker.ask(code, ext)))["topicList"]
    assert isinstance(found, list)
    return found


def test_all_topics_and_those_of_a_cluster() -> None:
    asker = Asker()
    assert text(asker.ask(206)) == '{"topicList":[]}'
    asker.register()
    assert names(asker, 206) == ["A", "B"]
    assert names(asker, 224, cluster="c") == ["A", "B"]
    assert names(asker, 224, cluster="d") == []


def test_system_topics_and_the_broker_to_ask_for_more() -> None:
    asker = Asker()
    assert text(asker.ask(304)) == '{"topicList":[]}'
    asker.register()
    assert text(asker.ask(304)) == '{"topicList":["c","b"],"brokerAddr":"10.0.0.0:10911"}'


def test_unit_topics() -> None:
    asker = Asker()
    flags = {"unit": 1, "sub": 2, "both": 3, "plain": 0}
    topics = {name: TopicConfig(name, topic_sys_flag=flag) for name, flag in flags.items()}
    asker.register(0, topics)
    assert names(asker, 311) == ["unit", "both"]
    assert names(asker, 312) == ["sub", "both"]
    assert names(asker, 313) == ["sub"]


def test_lists_may_be_disabled() -> None:
    asker = Asker()
    asker.ask(318, body=b"enableAllTopicList=false\nenableTopicList=false")
    for code, ext in ((206, {}), (224, {"cluster": "c"}), (311, {}), (312, {}), (313, {})):
        reply = asker.ask(code, ext)
        assert reply.code == 1
        assert str(reply.remark).startswith("disable")
