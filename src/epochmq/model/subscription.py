"""What one consumer group wants of one topic."""

import msgspec

from epochmq.base.errors import Refused
from epochmq.model.tags import SUB_ALL, java_hash, split_expression

TAG = "TAG"
SQL92 = "SQL92"
_TAG_TYPES = (TAG, "", None)
_SUBSCRIPTION_PARSE_FAILED = 23


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel"):
    """`code_set` holds the Java hash of each tag in `tags_set`; both are empty for everything.

    `sub_version` is the wall ms at which the client made it: the larger one wins at the broker.
    """

    topic: str = ""
    sub_string: str = SUB_ALL
    tags_set: tuple[str, ...] = ()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str | None = TAG
    class_filter_mode: bool = False

    @property
    def is_tag(self) -> bool:
        """Whether tags decide; old clients may leave the type empty."""
        return self.expression_type in _TAG_TYPES

    @property
    def wants_all(self) -> bool:
        """Whether every message of the topic is wanted."""
        return self.is_tag and (not self.sub_string or self.sub_string == SUB_ALL)

    def accepts_code(self, code: int) -> bool:
        """Whether a message whose consume queue unit has `code` may be wanted (hashes collide)."""
        return not self.is_tag or code in self.code_set or self.wants_all


def build(
    topic: str, expression: str | None, expression_type: str | None = TAG, version: int = 0
) -> SubscriptionData:
    """The subscription a client would send; Refused (23) for an expression that says nothing."""
    if expression_type not in _TAG_TYPES:
        if not expression:
            raise Refused(
                _SUBSCRIPTION_PARSE_FAILED, f"an empty {expression_type} expression; give one"
            )
        return SubscriptionData(
            topic, expression, sub_version=version, expression_type=expression_type
        )
    tags = split_expression(expression)
    if expression is None or tags is None:
        return SubscriptionData(topic, SUB_ALL, sub_version=version)
    codes = frozenset(map(java_hash, tags))
    return SubscriptionData(topic, expression, tuple(tags), codes, version)
