"""`epochmq pipeline kubernetes`: pod templates and settings for Spark on Kubernetes."""

from pathlib import Path

import click

from epochmq.base.errors import EnvironmentFault


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--image",
    required=True,
    metavar="NAME",
    help="Image of driver and executors, with Spark and `pip install 'epochmq[spark]'`.",
)
@click.option("--namespace", default="default", show_default=True, help="Namespace of the pods.")
@click.option(
    "--service-account",
    default="spark",
    show_default=True,
    metavar="NAME",
    help="Account with which the driver creates the executors' pods.",
)
@click.option(
    "--secret",
    default="",
    metavar="NAME",
    help="Kubernetes secret with certificates and keys; pods see its files in /etc/epochmq.",
)
@click.option(
    "--address-map",
    default="",
    metavar="A:P=B:P,...",
    help="Addresses under which pods reach the brokers, by registered address.",
)
@click.option(
    "--user",
    default=185,
    show_default=True,
    help="User id in the image; 185 in images of Spark's own Dockerfiles.",
)
@click.option("--force", is_flag=True, help="Replace existing files with other contents.")
def command(
    directory: Path,
    image: str,
    namespace: str,
    service_account: str,
    secret: str,
    address_map: str,
    user: int,
    force: bool,
) -> None:
    """Write driver.yaml, executor.yaml and spark.conf into DIRECTORY.

    The two pod templates forbid root, privileges and capabilities. spark.conf names the image, the
    templates, the secret and the addresses; `spark-submit --properties-file` reads it.
    """
    from epochmq.spark import kubernetes_templates

    job = kubernetes_templates.KubernetesJob(
        image,
        namespace=namespace,
        service_account=service_account,
        secret=secret,
        address_map=address_map,
        user=user,
    )
    try:
        for path in kubernetes_templates.write(job, directory, replace=force):
            click.echo(f"{path}", err=True)
    except OSError as error:
        raise EnvironmentFault(f"cannot write {directory}: {error.strerror or error}") from None
    click.echo(kubernetes_templates.summary(job, directory))
