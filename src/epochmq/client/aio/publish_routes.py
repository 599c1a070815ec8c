"""The queues that a producer may send to, by the route of a topic."""

import asyncio

from epochmq.base.errors import NotFound, NotReachable
from epochmq.client.aio.in_flight import Deadline
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.send_problems import NoRouteInTime
from epochmq.client.core.send_policy import permission_note
from epochmq.model.topic import MessageQueue


class PublishRoutes:
    """Finds writable queues; the first question about a topic sends a heartbeat to its masters."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._greeted: set[str] = set()

    def topics(self) -> list[str]:
        """Return the topics that were asked for, by the names that brokers know."""
        return list(self._greeted)

    async def queues(self, topic: str, deadline: Deadline) -> tuple[MessageQueue, ...]:
        """Return the queues of `topic` that have a master now.

        Raises:
            NotFound: the topic does not exist and no broker creates topics.
            NotReachable: no queue has a master now; `NoRouteInTime` if nothing is known in time.
        """
        instance, now = self._instance, self._instance.clock.now_ms()
        if instance.routes.is_stale(topic, now) or topic not in self._greeted:
            try:
                async with asyncio.timeout(max(1, deadline.left_ms()) / 1_000):
                    await self._refresh(topic)
            except NotFound:
                if instance.routes.route(topic) is None:
                    raise
                # A master that stops unregisters its topics; the next one has yet to register.
                raise NotReachable(f"no broker of topic {topic} is registered now") from None
            except TimeoutError:
                servers = ", ".join(instance.name_servers.addresses)
                raise NoRouteInTime(
                    f"the brokers of topic {topic} are not known in time (asked: {servers})"
                ) from None
        queues = instance.routes.publish(topic)
        if not queues:
            route = instance.routes.route(topic)
            raise NotReachable(
                f"topic {topic} has no writable queue with a living master now"
                + permission_note(route)
            )
        return queues

    async def _refresh(self, topic: str) -> None:
        await self._instance.ensure_route(topic, create=True)
        if topic not in self._greeted:
            self._greeted.add(topic)
            await self._instance.greet_all()
