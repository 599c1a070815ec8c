"""Names and filters given on the command line: a wrong one is a usage error, not a refusal."""

from epochmq.base.errors import Refused, UsageError
from epochmq.model.names import check_group, check_topic
from epochmq.model.sql92 import SqlError, compile_filter


def checked_topic(name: str) -> str:
    """`name`, if a topic may be called so."""
    try:
        check_topic(name)
    except Refused as error:
        raise UsageError(error.remark) from None
    return name


def checked_group(name: str) -> str:
    """`name`, if a group may be called so."""
    try:
        check_group(name)
    except Refused as error:
        raise UsageError(error.remark) from None
    return name


def checked_sql(text: str) -> str:
    """`text`, if it is an SQL92 filter."""
    try:
        compile_filter(text)
    except SqlError as error:
        raise UsageError(f"--sql '{text}': {error}") from None
    return text
