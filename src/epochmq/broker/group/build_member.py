"""Builds the controller-mode membership of a broker from its options and the files in its store."""

import logging
from collections.abc import Callable

from epochmq.base.ports import Blocking
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.broker_identity import UNCLEAN, IdentityFiles
from epochmq.broker.group.controller_mode_member import ControllerModeMember
from epochmq.broker.group.member_options import (
    epoch_file,
    identity_file,
    membership_options,
    replication_options,
    waits_for_replicas,
)
from epochmq.runtime.own_host import boot_id
from epochmq.runtime.rng import random_name
from epochmq.store.epochs import EpochFile
from epochmq.store.store import Store

log = logging.getLogger(__name__)


def build_member(
    node: BrokerContext, blocking: Blocking, changed: Callable[[], None]
) -> ControllerModeMember:
    """Return the membership of a broker; `changed` is called after a role change.

    Raises `StoreDamaged` when the identity belongs to another broker or cannot be read, and
    `ConfigError`.
    """
    options = node.options
    files = IdentityFiles(
        node.disk, identity_file(options), options.broker_cluster_name, options.broker_name
    )
    clean = note_start(
        files, node.store, boot_id(), sync_flush=options.flush_disk_type == "SYNC_FLUSH"
    )
    if not clean:
        log.warning(
            "this start follows a crash that may have lost messages: the controllers will not make"
            " this replica the master before it caught up"
        )
    upgraded = files.broker_id() is None and not files.known().incarnation
    return ControllerModeMember(
        node,
        files,
        EpochFile(node.disk, epoch_file(options)),
        membership_options(
            options,
            address=node.address,
            ha_address=node.ha_address,
            clean_start=clean,
            incarnation=random_name(),
            session=random_name(),
        ),
        replication_options(options, upgraded=upgraded),
        blocking=blocking,
        waits=waits_for_replicas(options),
        changed=changed,
    )


def note_start(files: IdentityFiles, store: Store, boot: str, *, sync_flush: bool) -> bool:
    """Return whether this start is clean, and record an unclean start until the controllers know of
    it (`UncleanRecorded`): the process may end before, and the next start would not notice (S50).
    """
    last = files.last_boot()
    same_boot = boot != "" and last == boot
    clean = last != UNCLEAN and started_clean(store, sync_flush=sync_flush, same_boot=same_boot)
    files.save_boot(boot if clean else UNCLEAN)
    return clean


def started_clean(store: Store, *, sync_flush: bool, same_boot: bool) -> bool:
    """Return whether no acknowledged message can be missing here (KIP-966, S10).

    After a crash of the process alone, the operating system still has what was written; after a
    crash of the machine only synced data remains. Bytes that were cut off at recovery may be a
    write that was under way or a damaged record that was acknowledged (S11); the two cannot be told
    apart.
    """
    found = store.recovered
    if found.lost_confirmed or found.cut.size or found.damages:
        return False
    return store.recovered.clean or sync_flush or same_boot
