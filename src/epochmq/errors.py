"""The errors of EpochMQ's clients.

Each error has two attributes for programs that decide what to do next. `retriable` says whether the
same call may succeed later. `outcome` says what is known about the request: it had no effect
(`Outcome.NOT_DONE`), or it may have had one (`Outcome.UNKNOWN`), because its answer was lost. When
a call returns, its request is done.

    try:
        await producer.send(message)
    except errors.EpochError as error:
        if error.outcome is errors.Outcome.UNKNOWN:
            ...  # the message may be stored; sending it again may store it twice
        elif error.retriable:
            ...  # it is not stored; try again later
        else:
            raise  # it is not stored, and trying again does not help
"""

from epochmq.base.errors import (
    ConfigError,
    EnvironmentFault,
    EpochError,
    NotFound,
    NotReachable,
    Outcome,
    PeerError,
    Refused,
    UsageError,
)

__all__ = [
    "ConfigError",
    "EnvironmentFault",
    "EpochError",
    "NotFound",
    "NotReachable",
    "Outcome",
    "PeerError",
    "Refused",
    "UsageError",
]
