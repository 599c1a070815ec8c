"""Administration of topics: create, change, delete, offsets of queues, consumer groups."""

from collections.abc import Mapping
from functools import partial

from epochmq.base.errors import UsageError
from epochmq.client.aio.admin_calls import Caller, ask_all
from epochmq.client.aio.admin_namesrv import ORDER_TOPICS, NamesrvCalls
from epochmq.model.names import check_topic
from epochmq.model.topic import MessageQueue, TopicConfig
from epochmq.runtime.fetch_table import fetch_table
from epochmq.wire.bodies.body import decode_answer, mq_map_decode
from epochmq.wire.bodies.offset_bodies import QueryConsumeQueueBody
from epochmq.wire.bodies.topic_bodies import (
    GroupList,
    TopicConfigTable,
    TopicOffset,
    TopicStatsTable,
)
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers import topic_headers as headers
from epochmq.wire.headers.namesrv_headers import DeleteTopicInNamesrvHeader
from epochmq.wire.headers.offset_headers import QueryConsumeQueueHeader

Offsets = dict[MessageQueue, TopicOffset]


class TopicCalls(NamesrvCalls, Caller):
    """Requests about topics."""

    async def put_topic(
        self, address: str, config: TopicConfig, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create or change a topic on one broker (17).

        Args:
            address: address of the broker.
            config: the configuration.
            attributes: changes of attributes: "+name" with a value sets one, "-name" removes it.
        """
        check_topic(config.topic_name)
        changes = ",".join(f"{k}={v}" if v else k for k, v in (attributes or {}).items())
        header = headers.creation(config, changes)
        await self.ask(address, request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))

    async def create_topic(
        self,
        config: TopicConfig,
        *,
        cluster: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Create or change a topic on all masters of a cluster.

        For an ordered topic, the order configuration of the name servers is written as well.

        Args:
            config: the configuration.
            cluster: name of the cluster; None means all clusters.
            attributes: as for `put_topic`.

        Returns:
            The addresses of the masters.

        Raises:
            UsageError: no master is registered.
            NotFound: the cluster is not known.
        """
        masters = await self.masters(cluster)
        if not masters:
            raise UsageError("no master is registered; start a broker first")
        for address in masters.values():
            await self.put_topic(address, config, attributes)
        if config.order:
            await self.put_order(config, masters)
        return list(masters.values())

    async def put_order(self, config: TopicConfig, broker_names: Mapping[str, str]) -> str:
        """Replace the order configuration of a topic at the name servers, and return it.

        Args:
            config: the topic; its number of write queues counts for each broker.
            broker_names: the brokers, as keys.
        """
        text = ";".join(f"{name}:{config.write_queue_nums}" for name in broker_names)
        await self.put_kv(ORDER_TOPICS, config.topic_name, text)
        return text

    async def merge_order(self, config: TopicConfig, broker_name: str) -> str:
        """Set the entry of one broker in the order configuration of a topic, and return
        that entry.
        """
        share = f"{broker_name}:{config.write_queue_nums}"
        before = await self.get_kv(ORDER_TOPICS, config.topic_name) or ""
        shares = {part.partition(":")[0]: part for part in before.split(";") if part}
        shares[broker_name] = share
        await self.put_kv(ORDER_TOPICS, config.topic_name, ";".join(shares.values()))
        return share

    async def delete_topic(self, topic: str, cluster: str | None = None) -> list[str]:
        """Delete a topic on all masters of a cluster and on all name servers.

        Args:
            topic: name of the topic.
            cluster: name of the cluster; None means all clusters.

        Returns:
            The addresses of the masters.
        """
        addresses = list((await self.masters(cluster)).values())
        await self.delete_topic_in_brokers(topic, addresses)
        await self.delete_topic_in_namesrv(topic, cluster)
        return addresses

    async def delete_topic_in_brokers(self, topic: str, addresses: list[str]) -> None:
        """Delete a topic with its messages on the brokers at `addresses` (215)."""
        command = request(
            RequestCode.DELETE_TOPIC_IN_BROKER, headers.DeleteTopicHeader(topic=topic)
        )
        await ask_all(addresses, lambda address: self.ask(address, command))

    async def delete_topic_in_namesrv(self, topic: str, cluster: str | None = None) -> None:
        """Delete the routes and the order configuration of a topic on all name servers (216)."""
        header = DeleteTopicInNamesrvHeader(topic=topic, clusterName=cluster)
        command = request(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
        await ask_all(self.name_servers, lambda address: self.ask(address, command))
        await self.delete_kv(ORDER_TOPICS, topic)

    async def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        """Return the configuration of all topics of one broker, system topics included (21)."""
        table = await fetch_table(
            RequestCode.GET_ALL_TOPIC_CONFIG,
            partial(decode_answer, TopicConfigTable),
            lambda command: self.ask(address, command),
        )
        return table.topic_config_table if table is not None else {}

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        """Return the configuration of one topic on one broker (351)."""
        header = headers.GetTopicConfigHeader(topic=topic)
        answer = await self.ask(address, request(RequestCode.GET_TOPIC_CONFIG, header))
        return decode_answer(TopicConfig, answer.body)

    async def topic_stats(
        self, topic: str, *, route_of: str | None = None
    ) -> tuple[Offsets, float]:
        """Return the offsets of all queues of a topic, and its write rate.

        Args:
            topic: name of the topic.
            route_of: the topic whose route is used; a light queue (LMQ) has no route of its own.

        Returns:
            First and last offsets by queue, sorted, and messages stored per second. Brokers before
            5.3 do not send the rate.
        """
        addresses = (await self.brokers_of(route_of or topic)).values()
        tables = await ask_all(addresses, lambda address: self.topic_stats_of(address, topic))
        offsets = [pair for found, _ in tables.values() for pair in found.items()]
        return dict(sorted(offsets, key=_queue)), sum(tps for _, tps in tables.values())

    async def topic_stats_of(self, address: str, topic: str) -> tuple[Offsets, float]:
        """Return the same for one broker (202). Raises `Refused` if it does not have the topic."""
        header = headers.GetTopicStatsHeader(topic=topic)
        answer = await self.ask(address, request(RequestCode.GET_TOPIC_STATS_INFO, header))
        table = decode_answer(TopicStatsTable, answer.body)
        return dict(mq_map_decode(table.offset_table)), table.topic_put_tps

    async def queue_units(
        self, address: str, queue: MessageQueue, index: int, count: int, group: str | None = None
    ) -> QueryConsumeQueueBody:
        """Return units of a consume queue at one broker (321).

        Args:
            address: address of the broker.
            queue: the queue; its broker name is not used.
            index: queue offset of the first unit.
            count: how many units at most.
            group: a group whose filter is returned as well.

        Raises:
            Refused: the broker has no such queue.
        """
        header = QueryConsumeQueueHeader(queue.topic, queue.queue_id, index, count, group)
        answer = await self.ask(address, request(RequestCode.QUERY_CONSUME_QUEUE, header))
        return decode_answer(QueryConsumeQueueBody, answer.body)

    async def groups_of(self, topic: str) -> list[str]:
        """Return the consumer groups that consume or consumed `topic`, sorted (300)."""
        header = headers.QueryTopicConsumeByWhoHeader(topic=topic)
        command = request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        addresses = (await self.brokers_of(topic)).values()
        answers = await ask_all(addresses, lambda address: self.ask(address, command))
        lists = (decode_answer(GroupList, answer.body).group_list for answer in answers.values())
        return sorted({group for groups in lists for group in groups})


def _queue(pair: tuple[MessageQueue, TopicOffset]) -> MessageQueue:
    return pair[0]
