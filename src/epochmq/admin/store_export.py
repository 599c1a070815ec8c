"""`epochmq store export`: the confirmed log of a running broker as a store directory."""

from pathlib import Path

import click

from epochmq.admin.output import JSON, output_option, print_json
from epochmq.admin.where import namesrv_option


@click.command()
@click.argument("broker_name")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@namesrv_option
@output_option
def export(broker_name: str, directory: Path, namesrv: str, output: str) -> None:
    """Copy the confirmed log of broker group BROKER_NAME into DIRECTORY, or go on with such a copy.

    The master sends it as to an async learner: all topics, in the log's order, with epochs. The
    copy is a store: offline audits and Spark read it, and a broker that is started on it derives
    queues and index.
    """
    from dataclasses import asdict

    from epochmq.admin.figures import size
    from epochmq.admin.progress_bar import Bar
    from epochmq.spark.log_copy import export_log

    with Bar("exporting", 1.0) as bar:
        done = export_log(
            namesrv,
            broker_name,
            directory,
            progress=lambda at, end: bar.set(at / max(end, 1), size(at)),
        )
    if output == JSON:
        print_json(asdict(done))
        return
    rate = done.copied_bytes / max(done.seconds, 1e-9)
    click.echo(
        f"{size(done.copied_bytes)} in {done.seconds:.1f} s ({size(int(rate))}/s);"
        f" {directory} holds the log of {broker_name} from {done.start} to {done.end}"
    )
