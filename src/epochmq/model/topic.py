"""The configuration of a topic on one broker."""

import msgspec

PERM_INHERIT = 0x1
PERM_WRITE = 0x2
PERM_READ = 0x4
PERM_PRIORITY = 0x8
PERM_READ_WRITE = PERM_READ | PERM_WRITE
PERM_MASK = 0xF

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"
FILTER_TYPES = frozenset({SINGLE_TAG, MULTI_TAG})


class TopicConfig(msgspec.Struct, rename="camel"):
    """All fields are always written, as upstream does; `attributes` is absent before 5.0."""

    topic_name: str = ""
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ_WRITE
    topic_filter_type: str = SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


def has_batch_queues(config: TopicConfig) -> bool:
    """Whether the topic keeps a batch as one record: its attribute queue.type is BatchCQ."""
    return config.attributes.get("queue.type") == "BatchCQ"


def is_readable(perm: int) -> bool:
    return perm & PERM_READ != 0


def is_writable(perm: int) -> bool:
    return perm & PERM_WRITE != 0


def is_inherited(perm: int) -> bool:
    """Whether topics may be created on send from this one."""
    return perm & PERM_INHERIT != 0


def format_perm(perm: int) -> str:
    """`RW-` style text, as tools print it."""
    marks = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    return "".join(mark if perm & bit else "-" for bit, mark in marks)
