"""`epochmq pipeline package`: EpochMQ as one file for a Spark cluster that does not have it."""

from pathlib import Path

import click

from epochmq.base.errors import EnvironmentFault


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--with",
    "extra",
    multiple=True,
    metavar="NAME",
    help="Include this installed distribution, too, such as fastavro. Repeat it for more.",
)
def command(file: Path | None, extra: tuple[str, ...]) -> None:
    """Write FILE, an archive for `spark-submit --py-files`. [default: named for the version]

    The archive works on nodes with the same version of Python, the same system and processor. The
    nodes need numpy and pyarrow, but neither EpochMQ nor its other dependencies.
    """
    from epochmq.spark import cluster_package

    path = file or Path(cluster_package.default_name())
    try:
        built = cluster_package.build(path, extra)
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror or error}") from None
    click.echo(built.summary)
