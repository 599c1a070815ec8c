"""Administration of name servers: key-value entries, options, write permission, topic names.

Changes are sent to every name server, because name servers do not exchange data.
"""

from epochmq.base.errors import NotFound
from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.client.aio.admin_calls import Caller, ask_all
from epochmq.client.aio.name_servers import checked
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.namesrv_bodies import KVTable, TopicList
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers import namesrv_headers
from epochmq.wire.headers import namesrv_headers as headers

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""The namespace that holds, for each ordered topic, how many queues each broker has."""


class NamesrvCalls(Caller):
    """Requests to name servers."""

    async def topics(self, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, in the order of the name server.

        Args:
            cluster: only topics with queues in this cluster; None means all topics.
        """
        if cluster is None:
            command = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            header = headers.GetTopicsByClusterHeader(cluster=cluster)
            command = request(RequestCode.GET_TOPICS_BY_CLUSTER, header)
        return decode_body(TopicList, (await self.ask_namesrv(command)).body).topic_list

    async def clusters_of(self, topic: str) -> list[str]:
        """Return the names of the clusters that have queues of `topic`, sorted."""
        route = await self.route(topic)
        names = {data.broker_name for data in route.broker_datas}
        table = (await self.cluster_info()).cluster_addr_table
        return sorted(cluster for cluster, members in table.items() if names & set(members))

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a key-value entry on every name server (100)."""
        header = namesrv_headers.PutKVConfigHeader(namespace=namespace, key=key, value=value)
        await self._ask_every(request(RequestCode.PUT_KV_CONFIG, header))

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """Return a key-value entry of one name server, or None (101)."""
        header = namesrv_headers.GetKVConfigHeader(namespace=namespace, key=key)
        answer = await self.instance.name_servers.ask(request(RequestCode.GET_KV_CONFIG, header))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return decode_header(namesrv_headers.GetKVConfigResponseHeader, checked(answer).ext).value

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a key-value entry on every name server; a missing entry is no error (102)."""
        header = namesrv_headers.DeleteKVConfigHeader(namespace=namespace, key=key)
        await self._ask_every(request(RequestCode.DELETE_KV_CONFIG, header))

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """Return all entries of a namespace; empty if the namespace does not exist (219)."""
        header = namesrv_headers.GetKVListHeader(namespace=namespace)
        command = request(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        answer = await self.instance.name_servers.ask(command, self.timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        return decode_body(KVTable, checked(answer).body).table

    async def namesrv_configs(self) -> dict[str, dict[str, str]]:
        """Return the options of every name server, by its address (319)."""
        answers = await self._ask_every(request(RequestCode.GET_NAMESRV_CONFIG))
        return {
            address: parse_properties(bytes(answer.body).decode())
            for address, answer in answers.items()
        }

    async def update_namesrv_config(self, changes: dict[str, str]) -> None:
        """Change options of every name server (318)."""
        body = format_properties(changes.items()).encode()
        await self._ask_every(request(RequestCode.UPDATE_NAMESRV_CONFIG, None, body))

    async def wipe_write_perm(self, address: str, broker_name: str) -> int:
        """Forbid writes to all topics of a broker, on one name server (205).

        Returns:
            The number of topics that were changed.
        """
        header = headers.WipeWritePermHeader(brokerName=broker_name)
        command = request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        answer = await self.ask(address, command)
        return decode_header(headers.WipeWritePermResponseHeader, answer.ext).wipeTopicCount

    async def add_write_perm(self, address: str, broker_name: str) -> int:
        """Allow writes to all topics of a broker again, on one name server (327).

        Returns:
            The number of topics that were changed.
        """
        header = headers.AddWritePermHeader(brokerName=broker_name)
        command = request(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        answer = await self.ask(address, command)
        return decode_header(headers.AddWritePermResponseHeader, answer.ext).addTopicCount

    async def check_broker_name(self, broker_name: str) -> None:
        """Raise `NotFound` unless a broker group has this name. Name servers accept
        unknown names.
        """
        known = (await self.cluster_info()).broker_addr_table
        if broker_name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise NotFound(f"there is no broker {broker_name}; known to the name server: {names}")

    async def _ask_every(self, command: Command) -> dict[str, Command]:
        return await ask_all(self.name_servers, lambda address: self.ask(address, command))
