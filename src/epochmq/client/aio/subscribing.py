"""What a consumer may ask for: tags by default, SQL92 over properties when said so."""

from dataclasses import dataclass

from epochmq.client.core.arguments import check_text
from epochmq.model.message import StoredMessage
from epochmq.model.subscription import SQL92, TAG, SubscriptionData, build


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 filter over message properties, as `Sql("a > 5 AND b = 'x'")`."""

    expression: str


def subscription(topic: str, expression: str | Sql, version: int) -> SubscriptionData:
    """The subscription as brokers want it; `version` is wall ms and rises with each change."""
    if isinstance(expression, Sql):
        check_text("expression", expression.expression)
        return build(topic, expression.expression, SQL92, version)
    check_text("expression", expression)
    return build(topic, expression, TAG, version)


def wants(data: SubscriptionData, message: StoredMessage) -> bool:
    """The client's half of tag filtering: brokers compare hashes, which collide."""
    return not data.is_tag or data.wants_all or (message.tags or "") in data.tags_set
