"""The connections to one cluster of one user: for questions, for reading messages."""

import asyncio

from epochmq.admin.messages.following import GROUP
from epochmq.auth.credentials import Credentials
from epochmq.client.aio import Admin, PullConsumer


class ClusterClient:
    """Connections with the rights of one user; `credentials` is None for nobody."""

    def __init__(self, name: str, namesrv: str, credentials: Credentials | None) -> None:
        self.name = name
        self.namesrv = namesrv
        self.credentials = credentials
        self.admin = Admin(namesrv, credentials=credentials)
        self.consumer = PullConsumer(namesrv, GROUP, credentials=credentials)

    @property
    def user(self) -> str | None:
        """The name of the user, or None."""
        return self.credentials.access_key if self.credentials is not None else None

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(self.admin.close(), self.consumer.close())
