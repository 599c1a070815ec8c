"""Attributes of a topic: the `+name=value,-name` language that changes them."""

from collections.abc import Mapping

from epochmq.base.errors import Refused

ATTRIBUTES_MAX = 16
TEXT_LENGTH_MAX = 2048

_SYSTEM_ERROR = 1

_LONG_MAX = 2**63 - 1
_MESSAGE_TYPES = frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})
_CHOICES: Mapping[str, frozenset[str]] = {
    "queue.type": frozenset({"BatchCQ", "SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE", "COMPACTION"}),
    "message.type": _MESSAGE_TYPES,
}
_FIXED = frozenset({"queue.type", "cleanup.policy"})
"""May be given when the topic is created, never later: the files on disk depend on them."""


def parse_changes(text: str | None) -> dict[str, str]:
    """Changes by signed name: {"+name": value, "-name": ""}; none for an empty text.

    Raises `Refused` (code 1) for any other form.
    """
    if not text:
        return {}
    if len(text) > TEXT_LENGTH_MAX:
        raise Refused(_SYSTEM_ERROR, f"attributes longer than {TEXT_LENGTH_MAX} characters")
    changes: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        _check_form(key, bool(equals))
        if key in changes:
            raise Refused(_SYSTEM_ERROR, f"key duplication: {key}")
        changes[key] = value
    return changes


def _check_form(key: str, has_value: bool) -> None:
    wanted, act = ("+", "add/alter") if has_value else ("-", "delete")
    if not key.startswith(wanted) or len(key) < 2:
        raise Refused(_SYSTEM_ERROR, f"{act} attribute format is wrong: {key}")


def alter(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """The attributes after `changes` (as of `parse_changes`); `current` is None at creation.

    Raises `Refused` (code 1) for an unknown name or value, and for a change that is not allowed.
    """
    result = dict(current or {})
    seen: set[str] = set()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if name in seen:
            raise Refused(_SYSTEM_ERROR, f"alter duplication key. key: {name}")
        seen.add(name)
        _check_change(current, sign, name)
        if sign == "+":
            _check_value(name, value)
            result[name] = value
        else:
            del result[name]
    if len(result) > ATTRIBUTES_MAX:
        raise Refused(_SYSTEM_ERROR, f"more than {ATTRIBUTES_MAX} attributes")
    return result


def _check_change(current: Mapping[str, str] | None, sign: str, name: str) -> None:
    if sign not in "+-" or not sign:
        raise Refused(_SYSTEM_ERROR, f"wrong format key: {name}")
    if name not in _CHOICES and name != "reserve.time":
        raise Refused(_SYSTEM_ERROR, f"unsupported key: {name}")
    if current is None:
        if sign == "-":
            problem = f"only add attribute is supported while creating topic. key: {name}"
            raise Refused(_SYSTEM_ERROR, problem)
        return
    if sign == "-" and name not in current:
        raise Refused(_SYSTEM_ERROR, f"attempt to delete a nonexistent key: {name}")
    if name in _FIXED:
        raise Refused(_SYSTEM_ERROR, f"attempt to update an unchangeable attribute. key: {name}")


def _check_value(name: str, value: str) -> None:
    choices = _CHOICES.get(name)
    if choices is not None:
        if value not in choices:
            known = ", ".join(sorted(choices))
            raise Refused(_SYSTEM_ERROR, f"value {value!r} is not in the set [{known}] of {name}")
        return
    try:
        number = int(value)
    except ValueError:
        number = -2
    if not -1 <= number <= _LONG_MAX:
        raise Refused(_SYSTEM_ERROR, f"value {value!r} is not in the range of {name}")
