"""Typed options: frozen classes whose fields have RocketMQ's key, a range and a description.

    @dataclass(frozen=True, kw_only=True)
    class StoreOptions:
        flush_disk_type: str = option(
            "ASYNC_FLUSH", "When a message counts as stored.", choices=("ASYNC_FLUSH", "SYNC_FLUSH")
        )

All faults of a configuration are reported together, one line each. Options that may change at run
time are marked (`mutable=True`). Paths and secrets can never be marked, so a request to the admin
port cannot make a server write to another file (CVE-2023-33246, CVE-2023-37582).
"""

import dataclasses
import difflib
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from epochmq.base.errors import ConfigError
from epochmq.base.java_properties import format_properties, parse_properties

__all__ = [
    "OptionRow",
    "change",
    "change_all",
    "describe",
    "load",
    "option",
    "parse_properties",
    "render_properties",
]

T = TypeVar("T")

PATH = "path"
HIDDEN = "******"
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_VARIABLE = re.compile(r"\$(?:\{([^}]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_HINTS_MAX = 20
"""The search for similar names is slow, and a client chooses how many names are wrong."""
_INT_LOW, _INT_HIGH = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class _Spec:
    """The metadata of a field."""

    doc: str
    key: str | None
    mutable: bool
    low: int | None
    high: int | None
    choices: tuple[str, ...]
    secret: bool
    unit: str


@dataclass(frozen=True)
class OptionRow:
    """One option, as documentation shows it."""

    key: str
    field: str
    type: str
    default: str
    allowed: str
    unit: str
    mutable: bool
    secret: bool
    doc: str


def option(
    default: Any,
    doc: str,
    *,
    key: str | None = None,
    mutable: bool = False,
    low: int | None = None,
    high: int | None = None,
    choices: Iterable[str] = (),
    secret: bool = False,
    unit: str = "",
) -> Any:
    """Return a field of an options class.

    Args:
        default: the default value.
        doc: the description.
        key: RocketMQ's name; None means the field's name in camel case.
        mutable: whether it may change at run time.
        low: smallest number allowed.
        high: largest number allowed.
        choices: texts allowed.
        secret: whether the value is hidden when options are shown.
        unit: unit of the value; with "path" it may contain `$NAME`, `${NAME}` and `${user.home}`.

    Raises:
        TypeError: a path or a secret is marked `mutable`.
    """
    if mutable and (secret or unit == PATH):
        raise TypeError("paths and secrets never change at runtime")
    spec = _Spec(doc, key, mutable, low, high, tuple(choices), secret, unit)
    return dataclasses.field(default=default, metadata={"option": spec}, repr=not secret)


@dataclass(frozen=True)
class _Slot:
    """A field of one options class that reads texts."""

    name: str
    key: str
    type: type
    default: Any
    spec: _Spec

    def read(self, text: str, env: Mapping[str, str]) -> Any:
        """Return the typed value. Raises `ValueError` with the reason."""
        text = text.strip()
        if self.spec.unit == PATH:
            text = _expand(text, env)
        if self.type is bool:
            return _read_bool(text)
        if self.type is int:
            return self._read_int(text)
        if self.spec.choices and text not in self.spec.choices:
            raise ValueError(f"must be one of {', '.join(self.spec.choices)}")
        return text

    def _read_int(self, text: str) -> int:
        if not _NUMBER.fullmatch(text):
            raise ValueError("must be a whole number")
        value = int(text)
        low, high = self.bounds()
        if not low <= value <= high:
            raise ValueError(f"must be {self.allowed() or 'a 64-bit number'}")
        return value

    def bounds(self) -> tuple[int, int]:
        low, high = self.spec.low, self.spec.high
        return (_INT_LOW if low is None else low, _INT_HIGH if high is None else high)

    def allowed(self) -> str:
        low, high = self.spec.low, self.spec.high
        if self.spec.choices:
            return " | ".join(self.spec.choices)
        if low is not None and high is not None:
            return f"between {low} and {high}"
        if low is not None:
            return f"at least {low}"
        return f"at most {high}" if high is not None else ""


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _expand(text: str, env: Mapping[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        name = found[1] or found[2] or ""
        name = "HOME" if name == "user.home" else name
        if name not in env:
            raise ValueError(f"uses ${name}, which is not set in the environment")
        return env[name]

    return _VARIABLE.sub(one, text)


def camel_case(name: str) -> str:
    """Return a name in snake case as camel case."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _slots(cls: Any) -> Mapping[str, _Slot]:
    """Return the options of a class by key, from a cache."""
    return _find_slots(cls)


@cache
def _find_slots(cls: Any) -> dict[str, _Slot]:
    hints = typing.get_type_hints(cls)
    slots: dict[str, _Slot] = {}
    for field in dataclasses.fields(cls):
        spec = field.metadata.get("option")
        if spec is None:
            continue
        if hints[field.name] not in (str, int, bool):
            raise TypeError(f"{cls.__name__}.{field.name}: options are str, int or bool")
        key = spec.key or camel_case(field.name)
        slots[key] = _Slot(field.name, key, hints[field.name], field.default, spec)
    return slots


def load(
    classes: Sequence[type[Any]],
    mapping: Mapping[str, str],
    *,
    ignored: Collection[str] = (),
    warn: Callable[[str], None] | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Any, ...]:
    """Return one instance of each class from one mapping; a key of several classes goes to each.

    Args:
        classes: the options classes.
        mapping: texts by key.
        ignored: RocketMQ's keys that EpochMQ does not use; they are accepted.
        warn: called with one line for each ignored key.
        env: variables for paths.

    Raises:
        ConfigError: with one line for each fault, for example an unknown key.
    """
    tables = [_slots(cls) for cls in classes]
    known = {key for table in tables for key in table}
    problems = _unknown([key for key in mapping if key not in known and key not in ignored], known)
    for key in mapping:
        if warn and key in ignored and key not in known:
            warn(f"option '{key}' has no effect in EpochMQ and is ignored")
    values = [_read_all(table, mapping, env or {}, problems) for table in tables]
    _raise_if(problems)
    return tuple(cls(**chosen) for cls, chosen in zip(classes, values, strict=True))


def change(instance: T, mapping: Mapping[str, str]) -> T:
    """Return a copy with other values. Raises `ConfigError` for options that may not change."""
    changed: T = change_all((instance,), mapping)[0]
    return changed


def change_all(instances: Sequence[Any], mapping: Mapping[str, str]) -> tuple[Any, ...]:
    """Change several instances with common keys, as `change`; all changes are made, or none."""
    tables = [_slots(type(instance)) for instance in instances]
    known = {key for table in tables for key in table}
    frozen = {key for table in tables for key, slot in table.items() if not slot.spec.mutable}
    problems = _unknown([key for key in mapping if key not in known], known)
    problems += [
        f"option '{key}' cannot be changed at runtime: set it in the file and restart"
        for key in mapping
        if key in frozen
    ]
    allowed = {key: text for key, text in mapping.items() if key not in frozen}
    values = [_read_all(table, allowed, {}, problems) for table in tables]
    _raise_if(problems)
    return tuple(
        dataclasses.replace(instance, **chosen)
        for instance, chosen in zip(instances, values, strict=True)
    )


def _read_all(
    table: Mapping[str, _Slot],
    mapping: Mapping[str, str],
    env: Mapping[str, str],
    problems: list[str],
) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for key, slot in table.items():
        # Variables are replaced in default values of paths as well.
        text = mapping.get(key)
        if text is None and slot.spec.unit == PATH and "$" in slot.default and env:
            text = slot.default
        if text is None:
            continue
        try:
            chosen[slot.name] = slot.read(text, env)
        except ValueError as error:
            shown = HIDDEN if slot.spec.secret else text
            problems.append(f"option '{key}' {error}, not '{shown}'")
    return chosen


def _unknown(keys: Sequence[str], known: Collection[str]) -> list[str]:
    """Return one line for each unknown key, the first of them with a similar known name."""
    # Case is ignored: `brokername` is the most common mistake.
    by_lower = {name.lower(): name for name in known}
    lines = []
    for number, key in enumerate(keys):
        hint = ""
        if number < _HINTS_MAX:
            near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.7)
            hint = f" (did you mean '{by_lower[near[0]]}'?)" if near else ""
        lines.append(f"unknown option '{key}'{hint}")
    return lines


def _raise_if(problems: list[str]) -> None:
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def render_properties(instances: Iterable[Any], redact: bool = True) -> str:
    """Return the options as a properties file, sorted by key; secrets are hidden if `redact`."""
    shown: dict[str, str] = {}
    for instance in instances:
        for key, slot in _slots(type(instance)).items():
            text = _text(getattr(instance, slot.name))
            shown[key] = HIDDEN if redact and slot.spec.secret and text else text
    return format_properties(sorted(shown.items()))


def describe(cls: type) -> list[OptionRow]:
    """Return the options of a class, for documentation and `--help`."""
    return [
        OptionRow(
            key=slot.key,
            field=slot.name,
            type=slot.type.__name__,
            default=_text(slot.default),
            allowed=slot.allowed(),
            unit=slot.spec.unit,
            mutable=slot.spec.mutable,
            secret=slot.spec.secret,
            doc=slot.spec.doc,
        )
        for slot in _slots(cls).values()
    ]
