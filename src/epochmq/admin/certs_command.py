"""`epochmq certs`: an authority and certificates for a test cluster."""

from pathlib import Path

import click

from epochmq.admin.shared.certificate_files import HOSTS, make_files, tls_options
from epochmq.admin.shared.output import note
from epochmq.base.java_properties import format_properties


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", default="server", show_default=True, help="Name of the holder and files.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Name or IP address of the holder; may be repeated.  [default: this machine's own]",
)
@click.option("--days", type=click.IntRange(1, 3_650), default=365, show_default=True)
def command(directory: Path, name: str, hosts: tuple[str, ...], days: int) -> None:
    """Make certificates for a test cluster in DIRECTORY.

    The authority in ca.pem and ca.key is made once. Each call makes one more certificate, NAME.pem
    with its key NAME.key, for a server, which also shows it to other servers. Keys can be read by
    their owner only. Copy ca.pem to all machines, and each certificate to its server.
    """
    hosts = hosts or HOSTS
    made = make_files(directory, name, hosts, days)
    for file in made:
        note(f"{file} is made")
    click.echo(format_properties(tls_options(directory, name).items()), nl=False)
