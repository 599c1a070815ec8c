"""The one error of an SQL92 filter."""

from epochmq.base.errors import Refused

_SUBSCRIPTION_PARSE_FAILED = 23


class SqlError(Refused):
    """A filter that cannot be used; answered with code 23. Says where in the text and why."""

    def __init__(self, problem: str, at: int | None = None) -> None:
        where = "" if at is None else f" at character {at + 1}"
        super().__init__(_SUBSCRIPTION_PARSE_FAILED, f"SQL92 filter: {problem}{where}")
