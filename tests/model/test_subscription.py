"""SubscriptionData and how it is built."""

import msgspec
import pytest

from epochmq.base.errors import Refused
from epochmq.model.group import SQL92, SubscriptionData, build
from epochmq.model.tags import java_hash


@pytest.mark.parametrize("expression", [None, "", "*"])
@pytest.mark.parametrize("kind", ["TAG", "", None])
def test_everything(expression: str | None, kind: str | None) -> None:
    data = build("T", expression, kind, 7)
    assert data == SubscriptionData("T", "*", sub_version=7)
    assert data.wants_all


def test_tags_carry_their_hashes() -> None:
    data = build("T", "a || b", version=7)
    assert data.sub_string == "a || b"
    assert data.tags_set == ("a", "b")
    assert data.code_set == {java_hash("a"), java_hash("b")}
    assert not data.wants_all


def test_a_filter_takes_every_code_since_properties_decide() -> None:
    data = build("T", "a > 1", SQL92, 7)
    assert (data.sub_string, data.expression_type, data.tags_set) == ("a > 1", "SQL92", ())
    assert not data.is_tag
    assert not data.wants_all


@pytest.mark.parametrize(("expression", "kind"), [("||", "TAG"), ("", SQL92), (None, SQL92)])
def test_an_expression_that_says_nothing_is_refused(expression: str | None, kind: str) -> None:
    with pytest.raises(Refused) as refused:
        build("T", expression, kind)
    assert refused.value.code == 23


def test_json_is_upstream_s() -> None:
    raw = (
        b'{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA",'
        b'"subVersion":5,"tagsSet":["TagA"],"topic":"T","x":1}'
    )
    data = msgspec.json.decode(raw, type=SubscriptionData)
    assert data == build("T", "TagA", version=5)
    assert hash(data) == hash(build("T", "TagA", version=5))
    assert msgspec.json.decode(msgspec.json.encode(data), type=SubscriptionData) == data
