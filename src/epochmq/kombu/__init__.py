"""A transport for kombu, and so for Celery (`pip install 'epochmq[celery]'`).

Import this package where the Celery application is made; it names the transport `epochmq`:

    import epochmq.kombu
    app = Celery("shop", broker="epochmq://127.0.0.1:9876")
"""

from kombu.transport import TRANSPORT_ALIASES

TRANSPORT_ALIASES["epochmq"] = "epochmq.kombu.virtual_transport:EpochTransport"
