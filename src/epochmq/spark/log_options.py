"""Parses and checks the options of the source `format("rocketmq-log")`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from epochmq.base.errors import ConfigError, EpochError, UsageError
from epochmq.base.options import describe, load, option
from epochmq.client.aio.name_server_list import check_name_servers
from epochmq.runtime.tls import client_tls
from epochmq.spark.columns import PROPERTIES
from epochmq.spark.connection_options import ConnectionOptions, credentials_in

LOG = "log"
CUT = "cut"
ALL = "all"
FAIL = "fail"
SKIP = "skip"
REPORT = "report"
FILES = "files"
LEARNER = "learner"
CONFIRMED = "confirmed"
END = "end"


@dataclass(frozen=True, kw_only=True)
class LogOptions(ConnectionOptions):
    """What is read and how; made by `parse_log_options`.

    With TLS name servers and brokers are asked so; replication too, unless the
    broker's `haTlsMode` is disabled.
    """

    path: str = option("", "Store directories or globs, by commas; each is a replica.")
    paths: str = option("", "The same as a JSON list; Spark makes it of load([...]).")
    read_from: str = option(
        FILES, "files, or learner: over the replication protocol.", choices=(FILES, LEARNER)
    )
    name_server: str = option("", "With readFrom=learner: name servers as host:port;host:port.")
    brokers: str = option("", "With readFrom=learner: broker groups by commas; all if empty.")
    include: str = option(
        LOG, "log: what is in the log; cut: what truncation kept.", choices=(LOG, CUT, ALL)
    )
    from_offset: int = option(0, "Records that begin at this log offset or behind.", low=0)
    to_offset: str = option(
        "",
        "Records that begin before this log offset; confirmed, or end for all that is there."
        " Default: confirmed where the store knows it, else end.",
    )
    epoch: str = option("", "Only bytes of these master epochs, as 3 or 3,5 or 3-5.")
    topic: str = option("", "Only messages of these topics, by commas.")
    on_corrupt: str = option(
        FAIL, "What becomes of bytes that are not a record.", choices=(FAIL, SKIP, REPORT)
    )
    check_crc: bool = option(True, "Compare each body with its checksum.")
    columns: str = option("", "Columns by commas; all if empty.")
    properties: str = option("map", "How the column properties is given.", choices=PROPERTIES)
    decompress: bool = option(True, "Give bodies as they were before their producer's compression.")
    broker_name: str = option("", "What the column brokerName says; no store file names it.")
    split_bytes: int = option(
        128 << 20, "About how much log one task reads, where borders are known.", low=1 << 20
    )
    epochs: frozenset[int] | None = field(default=None, compare=False)
    """The epochs in `epoch`; None for all."""

    @property
    def topics(self) -> list[str]:
        return names(self.topic)

    @property
    def column_names(self) -> list[str] | None:
        return names(self.columns) or None

    @property
    def reports(self) -> bool:
        return self.on_corrupt == REPORT

    @property
    def places(self) -> list[str]:
        """The given directories and glob patterns."""
        if self.paths:
            return [str(each) for each in json.loads(self.paths)]
        return names(self.path)


def names(text: str) -> list[str]:
    """Split a text at its commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_log_options(given: Mapping[str, str]) -> LogOptions:
    """Parse the options, whose names Spark passes in any case.

    Raises one `UsageError` that lists all problems.
    """
    keys = {row.key.lower(): row.key for row in describe(LogOptions)}
    mapping = {keys.get(key.lower(), key): str(value) for key, value in given.items()}
    problems: list[str] = []
    options = LogOptions()
    try:
        (options,) = load([LogOptions], mapping)
        options = replace(options, epochs=_epochs(options.epoch))
    except ConfigError as error:
        problems += error.problems
    except UsageError as error:
        problems.append(str(error))
    else:
        problems += _faults(options)
    if problems:
        raise UsageError("cannot read rocketmq-log: " + "; ".join(problems))
    return options


def _faults(options: LogOptions) -> list[str]:
    faults = []
    to = options.to_offset
    if to not in ("", CONFIRMED, END) and not to.isdecimal():
        faults.append(f"option 'toOffset' must be a number, {CONFIRMED} or {END}, not '{to}'")
    elif to.isdecimal() and int(to) < options.from_offset:
        faults.append(f"option 'toOffset' {to} is below fromOffset {options.from_offset}")
    if options.paths:
        faults += _fault_of_paths(options.paths)
    if faults:
        return faults
    return (
        _faults_of_learner(options) if options.read_from == LEARNER else _faults_of_files(options)
    )


def _fault_of_paths(text: str) -> list[str]:
    try:
        if isinstance(json.loads(text), list):
            return []
    except ValueError:
        pass
    return [f"option 'paths' must be a JSON list of directories, not '{text}'"]


def _faults_of_files(options: LogOptions) -> list[str]:
    if not options.places:
        return ["option 'path' is missing; name a broker's storePathRootDir, or a copy of it"]
    if options.name_server or options.brokers or options.tls_enable or options.credentials_path:
        return [
            "options 'nameServer', 'brokers', 'tls.*' and 'credentials.path' are for"
            " readFrom=learner; 'path' says it all"
        ]
    return []


def _faults_of_learner(options: LogOptions) -> list[str]:
    if options.places:
        return ["option 'path' is for files; readFrom=learner reads over the network"]
    if options.include != LOG:
        return [f"include={options.include} needs the files: no master has what was cut"]
    if options.to_offset == END:
        return ["toOffset=end needs the files: a learner is never told more than what is confirmed"]
    if not options.name_server:
        return ["option 'nameServer' is missing; give host:port, as 127.0.0.1:9876"]
    try:
        check_name_servers(options.name_server)
    except EpochError as error:
        return [f"option 'nameServer': {error}"]
    try:
        client_tls(options)
        credentials_in(options)
    except ConfigError as error:
        return list(error.problems)
    return []


def _epochs(text: str) -> frozenset[int] | None:
    found: set[int] = set()
    for part in names(text):
        low, dash, high = part.partition("-")
        last = high if dash else low
        if not low.isdecimal() or not last.isdecimal() or int(last) < int(low):
            raise UsageError(f"option 'epoch' must be as 3 or 3,5 or 3-5, not '{text}'")
        if int(last) - int(low) > 100_000:
            raise UsageError(f"option 'epoch' spans too much: '{part}'")
        found.update(range(int(low), int(last) + 1))
    return frozenset(found) if text.strip() else None
