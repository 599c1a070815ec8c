"""`epochmq dlq`: dead letters, and sending them again."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.name_completion import complete_groups
from epochmq.admin.local.where import DEV_DIRECTORY, namesrv_option
from epochmq.admin.nouns.noun_base import NounGroup, Row, confirm, shows, yes_option
from epochmq.admin.shared.output import note, output_option, show
from epochmq.base.errors import NotFound, Refused, UsageError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin
    from epochmq.spark.jobs.dlq import Dlq
    from epochmq.spark.jobs.dlq_causes import Dead

_COLUMNS = ("place", "topic", "keys", "tags", "tries", "stored", "body")
_BODY_LENGTH = 60
_LEDGERS = "ledgers"
_STATE = "~/.local/state"


@click.group(cls=NounGroup, short_help="Dead letters: list, show, send again.")
def command() -> None:
    """Dead letters: messages that a group could not handle, after all retries."""


@command.command("list")
@shows("group", "letters")
async def list_groups(admin: "Admin") -> list[Row]:
    """List the groups that have dead letters, and how many are stored."""
    from epochmq.model.names import DLQ

    rows: list[Row] = []
    for topic in sorted(name for name in await admin.topics() if name.startswith(DLQ)):
        letters = 0
        for address in (await admin.brokers_of(topic)).values():
            bounds, _ = await admin.topic_stats_of(address, topic)
            letters += sum(at.max_offset - max(at.min_offset, 0) for at in bounds.values())
        if letters:
            rows.append({"group": topic.removeprefix(DLQ), "letters": letters})
    return rows


@command.command("show")
@click.argument("group", shell_complete=complete_groups)
@click.argument("places", nargs=-1, metavar="[PLACE]...")
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="Newest ones.")
@namesrv_option
@output_option
def show_letters(
    group: str, places: tuple[str, ...], count: int, namesrv: str, output: str
) -> None:
    """Show the newest dead letters of a group, or those at PLACE (broker:queue:offset)."""
    found = _letters(_job(namesrv, group, places))
    newest = sorted(found, key=lambda dead: dead.stored_ms)[-count:]
    show(output, _COLUMNS, [_row(dead) for dead in newest], title=group)
    if output != "json" and len(found) > len(newest):
        note(f"{len(found):,} letters; --count shows more of them")


@command.command("resend")
@click.argument("group", shell_complete=complete_groups)
@click.argument("places", nargs=-1, metavar="[PLACE]...")
@click.option("--all", "everything", is_flag=True, help="All dead letters of the group.")
@click.option(
    "--to",
    type=click.Choice(("retry", "origin")),
    default="retry",
    show_default=True,
    help="To this group alone (retry), or to all consumers of the old topic (origin).",
)
@click.option(
    "--ledger",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that prevents sending a letter twice.  [default: one for each group, in the"
    " ./.epochmq of a development cluster, else in ~/.local/state/epochmq]",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
@yes_option
@namesrv_option
@output_option
def resend(
    group: str,
    places: tuple[str, ...],
    everything: bool,
    to: str,
    ledger: Path | None,
    dry_run: bool,
    yes: bool,
    namesrv: str,
    output: str,
) -> None:
    """Send dead letters again: those at PLACE, or all. A letter is never sent twice."""
    from epochmq.spark.jobs.dlq import dlq

    if everything == bool(places):
        raise click.UsageError("give PLACE (as `epochmq dlq show` prints it), or --all")
    path = ledger or _ledger(namesrv, group)
    job = _job(namesrv, group, places, to=to, ledger=path)
    plan = dlq(job, dry_run=True)
    if not plan.rows:
        where = ", ".join(places) or namesrv
        raise NotFound(f"group {group} has no dead letter at {where}")
    if dry_run:
        show(output, ("letters", "already_sent"), [_result(plan.rows, plan.details)])
        return
    confirm(f"Send {plan.rows:,} dead letters of {group} again, to {to}?", yes)
    path.parent.mkdir(parents=True, exist_ok=True)
    report = dlq(job)
    show(output, ("letters", "sent", "already_sent"), [_result(report.rows, report.details)])


def _ledger(namesrv: str, group: str) -> Path:
    """Return the ledger of a group: places of letters are unique in one cluster only."""
    from epochmq.model.names import check_group

    try:
        check_group(group)  # it becomes a part of the path
    except Refused as error:
        raise UsageError(error.remark) from None
    if Path(DEV_DIRECTORY).is_dir():
        folder = Path(DEV_DIRECTORY) / _LEDGERS
    else:
        cluster = re.sub(r"[^\w.-]", "_", namesrv)
        state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser(_STATE)
        folder = Path(state) / "epochmq" / _LEDGERS / cluster
    return folder / f"{group}.jsonl"


def _job(
    namesrv: str, group: str, places: Iterable[str], *, to: str = "", ledger: Path | None = None
) -> "Dlq":
    from epochmq.spark.jobs.dlq import Dlq
    from epochmq.spark.jobs.dlq_causes import Pick

    for place in places:
        if place.count(":") < 2:
            raise UsageError(f"'{place}' is no place of a letter; it is broker:queue:offset")
    pick = Pick(places=frozenset(places))
    return Dlq(namesrv, group, pick=pick, origins=0, to=to, ledger=ledger)


def _letters(job: "Dlq") -> "list[Dead]":
    from epochmq.spark.jobs.dlq import read_letters
    from epochmq.spark.jobs.job_report import JobReport

    return [dead for dead in read_letters(job, JobReport("dlq")) if job.pick.matches(dead)]


def _row(dead: "Dead") -> Row:
    from epochmq.admin.shared.java_text import moment

    body = dead.body.decode("utf-8", "replace")
    return {
        "place": dead.place,
        "topic": dead.topic or None,
        "keys": dead.keys or None,
        "tags": dead.tags or None,
        "tries": dead.tries,
        "stored": moment(dead.stored_ms),
        "body": body if len(body) <= _BODY_LENGTH else f"{body[:_BODY_LENGTH]}…",
        "msg_id": dead.msg_id,
        "properties": dead.properties,
    }


def _result(letters: int, details: dict[str, object]) -> Row:
    return {
        "letters": letters,
        "sent": details.get("sent"),
        "already_sent": details.get("alreadySent"),
    }
