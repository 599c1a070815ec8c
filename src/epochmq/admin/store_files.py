"""Opening the files of a broker that is stopped, for the commands `epochmq store ...`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.output import note
from epochmq.base.errors import NotFound

if TYPE_CHECKING:
    from epochmq.broker.config.options import BrokerOptions
    from epochmq.runtime.disk import RealDisk
    from epochmq.store.options import StoreOptions
    from epochmq.store.queue_table import QueueTypes

config_option = click.option(
    "-c",
    "--config",
    metavar="FILE",
    help="The broker's properties file, for sizes and storePathCommitLog.",
)


def open_files(directory: Path, config: str | None) -> "tuple[RealDisk, StoreOptions, QueueTypes]":
    """The disk under a store, its options, and which topics have batch queues.

    `NotFound` when there is no commit log. Log files have the size that they have.
    """
    from dataclasses import replace

    from epochmq.admin.serving import read_file
    from epochmq.broker.config.options import load_options
    from epochmq.broker.config.store_keys import store_options
    from epochmq.broker.state.metadata_journal import TableJournal
    from epochmq.broker.state.topic_table import TopicTable
    from epochmq.runtime.disk import RealDisk

    properties = read_file(config) if config else {}
    options = load_options(properties, env=os.environ)
    folder, elsewhere = _log_of(directory, options, "storePathRootDir" in properties)
    log = Path(elsewhere.get(folder) or directory / folder)
    if not log.is_dir():
        hint = "" if config else "; -c FILE names a configuration with storePathCommitLog"
        raise NotFound(f"{directory} holds no store: there is no commit log in {log}{hint}")
    found_bytes = _file_bytes(log)
    if found_bytes and "mappedFileSizeCommitLog" not in properties:
        options = replace(options, mapped_file_size_commit_log=found_bytes)
    disk = RealDisk(str(directory), elsewhere=elsewhere)
    topics = TopicTable()
    TableJournal(disk).load((topics,), repair=False)
    kept = store_options(options, folder)
    return disk, replace(kept, replicated=options.enable_controller_mode), topics.has_batch_queues


def _file_bytes(log: Path) -> int | None:
    """The size of log files as it is: a broker's other files do not tell."""
    first = next((path for path in sorted(log.iterdir())), None)
    return first.stat().st_size if first else None


def _log_of(
    directory: Path, options: "BrokerOptions", root_is_given: bool
) -> tuple[str, dict[str, str]]:
    """As the broker finds its log; one below its root is looked for below `directory`."""
    from epochmq.broker.config.store_keys import log_dir
    from epochmq.runtime.config_text import store_paths

    wanted = options.store_path_root_dir if root_is_given else str(directory)
    root, path, said = store_paths(wanted, options.store_path_commit_log)
    if said:
        note(said)
    return log_dir(root, path)
