"""How connections to a cluster are made, as options of Spark: read, and written for others.

Planner, executors and driver are processes of their own: what one of them was told about TLS, the
others learn by options alone.
"""

from collections.abc import Mapping

from epochmq.base.errors import ConfigError, UsageError
from epochmq.runtime.tls import OutgoingTls, client_tls
from epochmq.spark.option_table import SparkOption, flag, text

TLS_ROWS: tuple[SparkOption, ...] = (
    SparkOption("tls.enable", flag, False, "whether connections speak TLS"),
    SparkOption("tls.client.authServer", flag, True, "whether certificates are checked"),
    SparkOption("tls.client.trustCertPath", text, "", "PEM file with trusted authorities"),
    SparkOption(
        "tls.client.checkHostName", flag, False, "whether certificates must name the server"
    ),
    SparkOption("tls.client.certPath", text, "", "PEM file with a certificate to show"),
    SparkOption("tls.client.keyPath", text, "", "PEM file with its private key"),
)


def tls_of(values: Mapping[str, object]) -> OutgoingTls:
    """What the rows' values say; `UsageError` for files that cannot be used here."""
    tls = OutgoingTls(
        tls_enable=values["tls.enable"] is True,
        tls_client_auth_server=values["tls.client.authServer"] is True,
        tls_client_trust_cert_path=str(values["tls.client.trustCertPath"]),
        tls_client_check_host_name=values["tls.client.checkHostName"] is True,
        tls_client_cert_path=str(values["tls.client.certPath"]),
        tls_client_key_path=str(values["tls.client.keyPath"]),
    )
    try:
        client_tls(tls)
    except ConfigError as error:
        raise UsageError("; ".join(error.problems)) from None
    return tls


def reach(name_server: str, tls: OutgoingTls | None = None) -> dict[str, str]:
    """The options of `format("rocketmq")` that lead to a cluster; files lie at the same paths."""
    found = {"nameServer": name_server}
    if tls is not None and tls.tls_enable:
        given = {
            "tls.enable": "true",
            "tls.client.authServer": str(tls.tls_client_auth_server).lower(),
            "tls.client.trustCertPath": tls.tls_client_trust_cert_path,
            "tls.client.checkHostName": "true" if tls.tls_client_check_host_name else "",
            "tls.client.certPath": tls.tls_client_cert_path,
            "tls.client.keyPath": tls.tls_client_key_path,
        }
        found |= {name: value for name, value in given.items() if value}
    return found
