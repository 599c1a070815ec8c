"""`epochmq top`: a live view of the cluster."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from epochmq.admin.local.where import namesrv_option
from epochmq.admin.shared.output import JSON, note, output_option, print_json, show

if TYPE_CHECKING:
    from epochmq.admin.top.look import Looker


@click.command()
@namesrv_option
@click.option(
    "-a",
    "--controllers",
    metavar="HOST:PORT[;...]",
    default="",
    help="Addresses of the controllers.  [default: the brokers are asked]",
)
@click.option("-i", "--interval", type=click.FloatRange(0.1), default=0.5, show_default=True)
@click.option("--once", is_flag=True, help="Print once and exit.")
@output_option
def command(namesrv: str, controllers: str, interval: float, once: bool, output: str) -> None:
    """Show groups, roles, epochs, sync-state sets, lag and rates, live, with a timeline of changes.

    IN/S and OUT/S are messages per second of the last 10 s. Keys: q quits, p pauses, h hides the
    help.
    Where standard output is not a terminal, and with -o json, changes are printed as they happen.
    """
    from epochmq.admin.shared.asking import ask
    from epochmq.admin.top.look import Looker
    from epochmq.client.aio import Admin

    addresses = [part.strip() for part in controllers.split(";") if part.strip()]

    async def work(admin: Admin) -> None:
        looker = Looker(admin, addresses)
        if once:
            await _once(looker, output)
        elif sys.stdout.isatty() and output != JSON:
            await _live(looker, interval)
        else:
            await _follow(looker, interval, output)

    ask(namesrv, work)


async def _once(looker: "Looker", output: str) -> None:
    from epochmq.admin.top.screen import COLUMNS, rows

    view = await looker.look()
    if view.problem:
        note(view.problem)
    show(output, COLUMNS, rows(view))


async def _live(looker: "Looker", interval: float) -> None:
    from rich.live import Live

    from epochmq.admin.top.cluster_view import TopTimeline
    from epochmq.admin.top.keys import key_presses
    from epochmq.admin.top.screen import KEYS, draw

    timeline = TopTimeline()
    paused, helps = False, True
    with Live(auto_refresh=False) as live, key_presses() as keys:
        while True:
            if not paused:
                view = await looker.look()
                timeline.compare_view(view)
            footer = ("PAUSED   " if paused else "") + (KEYS if helps else "")
            live.update(draw(view, timeline, footer), refresh=True)
            match await keys.wait(interval):
                case "q":
                    return
                case "p":
                    paused = not paused
                case "h" | "?":
                    helps = not helps


async def _follow(looker: "Looker", interval: float, output: str) -> None:
    """Print only changes, one line each."""
    from epochmq.admin.top.cluster_view import TopTimeline

    timeline = TopTimeline()
    timeline.compare_view(await looker.look())
    if output != JSON:
        click.echo("watching; changes are told as they happen")
    while True:
        timeline.compare_view(await looker.look())
        events = list(timeline.events)
        timeline.events.clear()
        for event in events:
            if output == JSON:
                print_json({"wall_ms": event.wall_ms, "event": event.text})
            else:
                click.echo(event.text)
        sys.stdout.flush()
        await asyncio.sleep(interval)
