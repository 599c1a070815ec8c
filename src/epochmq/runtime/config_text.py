"""Configuration files and paths: properties files that a running server reads, store paths."""

import os
import stat
from collections.abc import Iterable

from epochmq.base import limits
from epochmq.base.errors import ConfigError
from epochmq.base.java_properties import parse_properties


def path_below(path: str, folders: Iterable[str]) -> str | None:
    """Return the real path of the absolute `path` if it is below one of `folders`, else None.

    Symbolic links are resolved first, so a link cannot lead out of the folders.
    """
    if not os.path.isabs(path) or "\0" in path:
        return None
    real = os.path.realpath(path)
    below = (os.path.realpath(folder).rstrip(os.sep) + os.sep for folder in folders)
    return real if any(real.startswith(folder) for folder in below) else None


def real_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Resolve symbolic links in the paths; the files need not exist."""
    return tuple(os.path.realpath(path) for path in paths)


def store_paths(root: str, log: str) -> tuple[str, str, str]:
    """Return the absolute paths of a broker's root and of its commit log, and a warning.

    The log's path is "" for the default place; the warning is "" for none. Relative paths start at
    the working directory, as in RocketMQ. Earlier versions took a relative storePathCommitLog from
    the root. If a log is there and only there, its path is returned with a warning. Raises
    `ConfigError` when both places hold a log.
    """
    root = os.path.abspath(root)
    if not log or "," in log:
        return root, log, ""
    path, former = os.path.abspath(log), os.path.abspath(os.path.join(root, log))
    if former == path or not _holds_log(former):
        return root, path, ""
    if _holds_log(path):
        raise ConfigError(
            [
                f"option 'storePathCommitLog' is {log}, and {path} and {former} both hold a log:"
                " give the absolute path of the one that counts, and move the other away"
            ]
        )
    return (
        root,
        former,
        (
            f"the commit log is in {former}; storePathCommitLog={log} stands for {path}, from the"
            " working directory: stop the broker and move the log there, or give its absolute path"
        ),
    )


def file_below_root(key: str, root: str, configured: str, default: str) -> tuple[str, str]:
    """Return the path of a small file relative to the root, and a warning ("" for none).

    A relative path starts at the working directory, as for `store_paths`. Earlier versions took it
    from the root: files that are there and only there are used, with a warning. Raises
    `ConfigError` for a file outside the root, and when both places hold a file.
    """
    if not configured:
        return default, ""
    root = os.path.abspath(root)
    path, former = os.path.abspath(configured), os.path.abspath(os.path.join(root, configured))
    if former != path and _is_inside(former, root) and _is_there(former):
        if _is_inside(path, root) and _is_there(path):
            raise ConfigError(
                [
                    f"option '{key}' is {configured}, and both {path} and {former} are there: give"
                    " the absolute path of the one that counts, and move the other away"
                ]
            )
        said = (
            f"{key}={configured} stands for {path}, from the working directory, and {former} is"
            " used: give its absolute path"
        )
        return os.path.relpath(former, root), said
    if _is_inside(path, root):
        return os.path.relpath(path, root), ""
    problem = f"option '{key}' must lie under storePathRootDir {root}, not {path}"
    raise ConfigError([problem])


def _is_inside(path: str, root: str) -> bool:
    return path.startswith(root.rstrip(os.sep) + os.sep)


def _is_there(path: str) -> bool:
    """Return whether the folder has the file, or a file whose name begins with its name."""
    folder, name = os.path.split(path)
    try:
        return any(found.startswith(name) for found in os.listdir(folder))
    except OSError:
        return False


def _holds_log(folder: str) -> bool:
    try:
        return any(len(name) == 20 and name.isdecimal() for name in os.listdir(folder))
    except OSError:
        return False


def read_properties(path: str) -> dict[str, str]:
    """Read the properties in a regular file of limited size; `ConfigError` names the file."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limits.CONFIG_BODY_BYTES_MAX:
            raise ConfigError([f"{path} is not a properties file"])
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
