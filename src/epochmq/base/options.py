"""Typed options: frozen classes whose fields know RocketMQ's key, their range and their meaning.

    @dataclass(frozen=True, kw_only=True)
    class StoreOptions:
        flush_disk_type: str = option(
            "ASYNC_FLUSH", "When a message counts as stored.", choices=("ASYNC_FLUSH", "SYNC_FLUSH")
        )

Every fault of a configuration is reported at once, one clear line each. What may change at
runtime is an allow-list (`mutable=True`) of plain values: paths and secrets can never be in it, so
a stranger who reaches the admin port cannot aim a write at a file (CVE-2023-33246, CVE-2023-37582).
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
"""Looking for near names is slow, and whoever reaches the admin port chooses how many are wrong."""
_INT_LOW, _INT_HIGH = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class _Spec:
    """What a field's metadata holds."""

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
    """One option as documentation shows it."""

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
    """A field of an options class; `key` defaults to the field's name in camelCase.

    With `unit="path"` the value may hold `$NAME`, `${NAME}` and `${user.home}`.
    """
    if mutable and (secret or unit == PATH):
        raise TypeError("paths and secrets never change at runtime")
    spec = _Spec(doc, key, mutable, low, high, tuple(choices), secret, unit)
    return dataclasses.field(default=default, metadata={"option": spec}, repr=not secret)


@dataclass(frozen=True)
class _Slot:
    """A field of one options class, ready to read texts."""

    name: str
    key: str
    type: type
    default: Any
    spec: _Spec

    def read(self, text: str, env: Mapping[str, str]) -> Any:
        """The typed value; ValueError with the reason otherwise."""
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
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _slots(cls: Any) -> Mapping[str, _Slot]:
    """The options of a class by key; found once, for strangers ask for a configuration too."""
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
    """One instance of each class from one flat mapping; a key that several have goes to each.

    `ignored` are keys that RocketMQ knows and EpochMQ has no use for: accepted, with one line to
    `warn` each. Any other unknown key is a fault.
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
    """A copy with other values; only options that may change at runtime."""
    changed: T = change_all((instance,), mapping)[0]
    return changed


def change_all(instances: Sequence[Any], mapping: Mapping[str, str]) -> tuple[Any, ...]:
    """`change` over several instances that share one flat space of keys; all or nothing."""
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
        # Paths have their variables replaced in defaults too.
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
    """One line for each key, the first of them with the name that was probably meant."""
    # Compared without case: `brokername` is the commonest slip.
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
    """The effective configuration as a properties file, sorted by key; secrets hidden."""
    shown: dict[str, str] = {}
    for instance in instances:
        for key, slot in _slots(type(instance)).items():
            text = _text(getattr(instance, slot.name))
            shown[key] = HIDDEN if redact and slot.spec.secret and text else text
    return format_properties(sorted(shown.items()))


def describe(cls: type) -> list[OptionRow]:
    """The options of a class, for documentation and `--help`."""
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
