"""`epochmq store repair`: what is damaged in a stopped broker's log, and two ways on."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin import exits
from epochmq.admin.nouns.noun_base import confirm, yes_option
from epochmq.admin.output import note
from epochmq.admin.store_files import config_option, open_files
from epochmq.base.errors import UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.store.damage import Damage
    from epochmq.store.repair import Repair


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@config_option
@click.option(
    "--from",
    "replica",
    metavar="HOST:PORT",
    help="Copy the damaged bytes from this broker, a replica that runs.",
)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Give the damaged messages up: a filler takes their place, all others stay.",
)
@yes_option
@click.pass_context
def repair(
    ctx: click.Context,
    directory: Path,
    config: str | None,
    replica: str | None,
    skip_damaged: bool,
    yes: bool,
) -> None:
    """Read the log in DIRECTORY (storePathRootDir), and say which of its bytes are damaged.

    With --from or --skip-damaged they are repaired; where a checksum tells that one bit was
    flipped, that bit is flipped back in either case. The old bytes are kept in DIRECTORY/cut.
    Without one of the two nothing is changed. Exit code 0 when the log is sound, 4 when not.
    """
    from epochmq.runtime.own_host import boot_id
    from epochmq.store.repair import Repair

    if replica and skip_damaged:
        raise UsageError("--from and --skip-damaged exclude each other")
    disk, options, types = open_files(directory, config)
    work = Repair(disk, options, types, boot=boot_id())
    try:
        if not work.damages:
            click.echo("the log is sound")
            return
        for damage in work.damages:
            click.echo(f"{damage}{_how(damage)}")
        if not replica and not skip_damaged:
            note("nothing was changed; --from HOST:PORT or --skip-damaged repairs it")
            ctx.exit(exits.UNHEALTHY)
        way = f"with the bytes of {replica}" if replica else "and give up what cannot be restored"
        confirm(f"Repair {len(work.damages)} ranges {way}?", yes)
        _repair(work, replica)
        left = work.search()
        for path in work.kept:
            click.echo(f"kept what was overwritten in {directory / path}")
        for damage in left:
            click.echo(f"still damaged: {damage}")
        if not left:
            click.echo("the log is sound")
        ctx.exit(exits.UNHEALTHY if left else exits.OK)
    finally:
        work.close()


def _how(damage: "Damage") -> str:
    return "; the bit can be restored" if damage.bit is not None else ""


def _repair(work: "Repair", replica: str | None) -> None:
    for damage in work.damages:
        if work.mend(damage):
            continue
        if replica is None:
            work.skip(damage)
        else:
            low, high = work.around(damage)
            work.copy(damage, low, _read_log(replica, low, high))


def _read_log(address: str, low: int, high: int) -> bytes:
    """Bytes `[low, high)` of the log of the broker at `address`, as far as it confirms them."""
    from epochmq.admin.asking import ask
    from epochmq.base.limits import BULK_READ_BYTES_MAX
    from epochmq.client.aio.bulk_calls import BulkCalls

    async def read(admin: "Admin") -> bytes:
        calls = BulkCalls(admin.instance)
        data = b""
        while low + len(data) < high:
            at = low + len(data)
            part = await calls.log(address, at, min(high - at, BULK_READ_BYTES_MAX))
            if not part.data:
                break
            data += part.data[: high - at]
        return data

    return ask(address, read)
