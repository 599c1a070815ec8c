"""Options of the log, which all servers have."""

from dataclasses import dataclass

from epochmq.base.options import PATH, option

LEVELS = ("debug", "info", "warning", "error")
TEXT, JSON = "text", "json"
LOG_LEVEL = "logLevel"
"""The key of `log_level`. The level in use may differ from it: SIGHUP reads the file again."""


@dataclass(frozen=True, kw_only=True)
class ServerLogOptions:
    """What is logged, where, and how; RocketMQ has this in its logback files."""

    log_level: str = option("info", "What is logged. EpochMQ's own.", choices=LEVELS, mutable=True)
    log_format: str = option(
        TEXT,
        "How lines are written: text, or one JSON object a line. EpochMQ's own.",
        choices=(TEXT, JSON),
    )
    log_file: str = option(
        "", "Log to this file too, rotated; empty for stderr only. EpochMQ's own.", unit=PATH
    )
