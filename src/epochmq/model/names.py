"""Names of topics and groups: allowed characters, prefixes, system names."""

import re

from epochmq.base import limits
from epochmq.base.errors import HeaderError, Refused

RETRY = "%RETRY%"
DLQ = "%DLQ%"
SYSTEM_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

DEFAULT_TOPIC = "TBW102"
"""The template of topics that are created by the first send."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
TIMER_TOPIC = "rmq_sys_wheel_timer"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"

SYSTEM_TOPICS = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
NOT_SENDABLE_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

TOOLS_GROUP = "TOOLS_CONSUMER"
SYSTEM_GROUPS = frozenset(
    {
        TOOLS_GROUP,
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    }
)

_SYSTEM_ERROR = 1
_allowed = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch


def check_topic(name: str) -> None:
    """Raise `Refused` (1) unless `name` can be a topic; retry and dead letter topics may be longer.

    A POP retry topic of the second version has one `+` between group and topic.
    """
    if name.startswith((RETRY, DLQ)):
        plain = name.replace("+", "_", 1) if name.startswith(RETRY) else name
        _check(plain, "topic", limits.RETRY_TOPIC_LENGTH_MAX)
    else:
        _check(name, "topic", limits.TOPIC_LENGTH_MAX)


def check_group(name: str) -> None:
    """Raise `Refused` (1) unless `name` can be a producer or consumer group."""
    _check(name, "group", limits.GROUP_LENGTH_MAX)


def check_shown(name: str) -> None:
    """Raise `HeaderError` if a broker's name or address has characters that cannot be printed.

    Such names appear in logs, where a line break would let a sender write its own lines.
    """
    if not name.isprintable():
        raise HeaderError(f"the name {name!r} has characters that cannot be shown")


def _check(name: str, what: str, length_max: int) -> None:
    if not name:
        raise Refused(_SYSTEM_ERROR, f"the {what} name is empty; give one")
    if len(name) > length_max:
        raise Refused(
            _SYSTEM_ERROR,
            f"the {what} name has {len(name)} characters, {length_max} are allowed; shorten it",
        )
    if _allowed(name) is None:
        raise Refused(
            _SYSTEM_ERROR,
            f"the {what} name {name!r} has a forbidden character; allowed are a-z A-Z 0-9 _ - % |",
        )


def retry_topic(group: str) -> str:
    """Return the topic for messages that `group` must consume again."""
    return RETRY + group


def dlq_topic(group: str) -> str:
    """Return the topic for dead letters of `group`."""
    return DLQ + group


def is_retry_topic(name: str) -> bool:
    return name.startswith(RETRY)


def is_dlq_topic(name: str) -> bool:
    return name.startswith(DLQ)


def is_system_topic(name: str) -> bool:
    """Whether it is a system topic, which users may neither delete nor change."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX)


def is_system_group(name: str) -> bool:
    """Whether it is a system group; such groups are created when they are used."""
    return name in SYSTEM_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)
