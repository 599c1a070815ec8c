"""A name server and a broker that take TLS only, as real processes, and how to reach them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.compat.peers.cluster import Config
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import is_listening
from tests.runtime.test_tls import CERT, KEY

from epochmq.base.errors import EpochError
from epochmq.runtime.tls import OutgoingTls, client_tls, outgoing_tls
from epochmq.spark.spark_cluster import Cluster

TLS = OutgoingTls(tls_enable=True, tls_client_trust_cert_path=CERT)
SERVER: Config = {
    "tls.server.mode": "enforcing",
    "tls.server.certPath": CERT,
    "tls.server.keyPath": KEY,
}
CLIENT: Config = {"tls.enable": True, "tls.client.trustCertPath": CERT}


class TlsCluster(EpochCluster):
    """Nothing on its ports is plain, not even what the broker says to the name server."""

    def __init__(self, root: Path | None = None) -> None:
        both = {**SERVER, **CLIENT}
        super().__init__(root, broker_config=both, namesrv_config=both)

    def is_ready(self) -> bool:
        if not is_listening(self.broker_port):
            return False
        with (
            suppress(EpochError),
            Cluster(self.namesrv_addr, failover_timeout_ms=500, tls=TLS) as view,
        ):
            return bool(view.queues("TBW102"))
        return False


@contextmanager
def speaking_tls() -> Iterator[None]:
    """Clients that are made here and are told nothing speak TLS, as below `epochmq --tls`."""
    before = outgoing_tls.set(client_tls(TLS))
    try:
        yield
    finally:
        outgoing_tls.reset(before)
