"""Metrics of the process of a server: event loop, memory, descriptors, log lines."""

import os
from collections.abc import Iterator

from epochmq.observe.families import COUNTER, GAUGE, Family, Row
from epochmq.runtime.process import process_figures

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = "/proc/self/statm"
_STATUS = "/proc/self/status"
_OWNERS = {"RssAnon": "process", "RssFile": "files", "RssShmem": "shared"}
"""Lines of `_STATUS` by who owns the memory. Memory of files can be taken back by the system."""


def process_families() -> Iterator[Family]:
    """Yield the metrics of this process; its event loop must run."""
    figures = process_figures()
    for name, kind, help_text, key in (
        ("epochmq_event_loop_turn_max_milliseconds", GAUGE,
         "Longest turn of the event loop since the start.", "epochmqLoopTurnMaxMs"),
        ("epochmq_open_descriptors", GAUGE, "Open file descriptors.", "epochmqDescriptors"),
        ("epochmq_descriptors_limit", GAUGE, "Limit of file descriptors.", "epochmqDescriptorsMax"),
        ("epochmq_log_lines_dropped", COUNTER, "Log lines that were dropped.",
         "epochmqLogLinesDropped"),
    ):  # fmt: skip
        if key in figures:
            yield Family(name, kind, help_text, (), [((), int(figures[key]))])
    yield Family(
        "epochmq_event_loop_slow_turns", COUNTER, "Turns of the event loop that took longer.",
        ("over_milliseconds",), slow_turns(figures.get("epochmqLoopTurnsOverMs", "")),
    )  # fmt: skip
    if (resident := resident_bytes()) is not None:
        yield Family(
            "epochmq_resident_memory_bytes", GAUGE, "Memory of the process.", (), [((), resident)]
        )
    yield Family(
        "epochmq_memory_bytes", GAUGE,
        "Memory by owner: the process itself, files that it maps, and shared memory.",
        ("owner",), memory_by_owner(),
    )  # fmt: skip


def memory_by_owner() -> list[Row]:
    """Return the resident bytes of each owner; nothing where the system does not say."""
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        return [
            ((owner,), int(fields[name].split()[0]) * 1024)
            for name, owner in _OWNERS.items()
            if name in fields
        ]
    except (OSError, IndexError, ValueError):
        return []


def slow_turns(text: str) -> list[Row]:
    """Return the numbers of turns by their limit, from a text such as "50:3,100:1"."""
    pairs = (part.partition(":") for part in text.split(",") if part)
    return [((limit,), int(count)) for limit, _, count in pairs]


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not say."""
    try:
        with open(_STATM, encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return None
