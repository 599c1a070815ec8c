"""Properties files that a running server reads because somebody asks it to."""

import os
import stat
from collections.abc import Iterable

from epochmq.base import limits
from epochmq.base.errors import ConfigError
from epochmq.base.java_properties import parse_properties


def path_below(path: str, folders: Iterable[str]) -> str | None:
    """The real path of the absolute `path` when it leads below one of `folders`, else None.

    Links are followed first, so none leads out.
    """
    if not os.path.isabs(path) or "\0" in path:
        return None
    real = os.path.realpath(path)
    below = (os.path.realpath(folder).rstrip(os.sep) + os.sep for folder in folders)
    return real if any(real.startswith(folder) for folder in below) else None


def real_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Where the paths lead to, whether something is there or not."""
    return tuple(os.path.realpath(path) for path in paths)


def read_properties(path: str) -> dict[str, str]:
    """The properties in a regular file of moderate size; `ConfigError` that names it."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limits.CONFIG_BODY_BYTES_MAX:
            raise ConfigError([f"{path} is no properties file"])
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise ConfigError([f"cannot read {path}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"cannot read {path}: it is not UTF-8 text"]) from None
    except ConfigError as error:
        raise ConfigError([_named(path, problem) for problem in error.problems]) from None


def _named(path: str, problem: str) -> str:
    return problem if path in problem else f"{path}: {problem}"
