"""Checks what a caller passes, before a wrong type fails somewhere deep with another name."""

from epochmq.base.errors import UsageError


def check_text(field: str, value: object, hint: str = "") -> None:
    """Raise `UsageError` that names `field` unless `value` is a str."""
    if not isinstance(value, str):
        raise UsageError(f"{field} must be text, not {kind_of(value)}{hint}")


def check_kind(field: str, value: object, kinds: tuple[type, ...], wanted: str) -> None:
    """Raise `UsageError` that names `field` and what is `wanted`, unless `value` is of `kinds`."""
    if not isinstance(value, kinds):
        raise UsageError(f"{field} must be {wanted}, not {kind_of(value)}")


def check_callable(field: str, value: object, hint: str = "") -> None:
    """Raise `UsageError` that names `field` unless `value` can be called."""
    if not callable(value):
        raise UsageError(f"{field} must be a function, not {kind_of(value)}{hint}")


def kind_of(value: object) -> str:
    """The type and the beginning of `value`, for a message."""
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"
