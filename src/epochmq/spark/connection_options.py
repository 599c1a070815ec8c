"""Options of connections that other processes make: Spark's planner, executors and driver."""

from dataclasses import dataclass

from epochmq.auth.credentials import Credentials
from epochmq.base.options import PATH, option
from epochmq.client.aio.client_credentials import read_credentials_file
from epochmq.runtime.tls import OutgoingTls


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(OutgoingTls):
    """TLS settings and the credentials file of connections that other processes make.

    Jobs pass it on to their workers, where the files must have the same paths.
    """

    credentials_path: str = option(
        "",
        "File with the properties accessKey and secretKey, which only its owner can read. Empty is"
        " the credentials of the process.",
        key="credentials.path",
        unit=PATH,
    )


def credentials_in(options: OutgoingTls | None) -> Credentials | None:
    """Return the credentials in the file that the options name; None if they name none.

    Raises `ConfigError` for a file that cannot be used.
    """
    if isinstance(options, ConnectionOptions) and options.credentials_path:
        return read_credentials_file(options.credentials_path)
    return None
