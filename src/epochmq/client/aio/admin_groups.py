"""Administration of consumer groups: configuration, members, and producers."""

from functools import partial

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.client.aio.admin_calls import SLOW_TIMEOUT_MS, Caller
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.names import check_group, retry_topic
from epochmq.runtime.fetch_table import fetch_table
from epochmq.wire.bodies.body import decode_answer, encode_body
from epochmq.wire.bodies.group_bodies import (
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
    SubscriptionGroupTable,
)
from epochmq.wire.bodies.namesrv_bodies import TopicList
from epochmq.wire.bodies.pop_bodies import MessageRequestMode
from epochmq.wire.bodies.runtime_bodies import ConsumeDirectlyResult, ConsumerRunningInfo
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers import admin_headers, group_headers
from epochmq.wire.headers import group_headers as headers


class GroupCalls(Caller):
    """Requests about groups."""

    async def put_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create or change a consumer group on one broker (200)."""
        check_group(config.group_name)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self.ask(address, request(code, None, encode_body(config)))

    async def delete_group(self, address: str, group: str, *, clean_offsets: bool = False) -> None:
        """Delete a consumer group on one broker (207).

        Args:
            address: address of the broker.
            group: name of the group.
            clean_offsets: whether its committed offsets are deleted as well.
        """
        header = headers.DeleteGroupHeader(groupName=group, cleanOffset=clean_offsets)
        await self.ask(address, request(RequestCode.DELETE_SUBSCRIPTIONGROUP, header))

    async def groups(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Return the configuration of all consumer groups of one broker, system groups included
        (201).
        """
        table = await fetch_table(
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            partial(decode_answer, SubscriptionGroupTable),
            lambda command: self.ask(address, command),
        )
        return table.subscription_group_table if table is not None else {}

    async def group_config(self, address: str, group: str) -> SubscriptionGroupConfig:
        """Return the configuration of one group on one broker (352)."""
        header = headers.GetGroupConfigHeader(group=group)
        answer = await self.ask(address, request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header))
        return decode_answer(SubscriptionGroupConfig, answer.body)

    async def set_request_mode(
        self, address: str, topic: str, group: str, mode: str, sharing: int = 0
    ) -> None:
        """Set whether a group reads a topic of one broker by pull or by POP (401).

        Args:
            address: address of the broker.
            topic: name of the topic.
            group: name of the group.
            mode: "PULL" or "POP".
            sharing: for POP: RocketMQ's popShareQueueNum.
        """
        body = MessageRequestMode(topic, group, mode=mode, pop_share_queue_num=sharing)
        code = RequestCode.SET_MESSAGE_REQUEST_MODE
        await self.ask(address, request(code, None, encode_body(body)))

    async def topics_of_group(self, address: str, group: str) -> list[str]:
        """Return the topics in which a group has offsets on one broker (343)."""
        header = headers.QueryTopicsByConsumerHeader(group=group)
        answer = await self.ask(address, request(RequestCode.QUERY_TOPICS_BY_CONSUMER, header))
        return decode_answer(TopicList, answer.body).topic_list

    async def consumers(self, group: str, address: str | None = None) -> ConsumerConnection:
        """Return the members of a consumer group that are connected now (203).

        Members send heartbeats to every broker of their topics, so one broker that knows the group
        is enough.

        Args:
            group: name of the group.
            address: the broker to ask; None means the brokers of the group's retry topic in turn.

        Raises:
            Refused: no member is connected (206).
            NotFound: no broker knows the group.
        """
        header = group_headers.GetConsumerConnectionListHeader(consumerGroup=group)
        command = request(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        if address is not None:
            return decode_answer(ConsumerConnection, (await self.ask(address, command)).body)
        answer = await self._ask_about(group, command)
        return decode_answer(ConsumerConnection, answer.body)

    async def producers(self, group: str, topic: str) -> ProducerConnection:
        """Return the producers of a group that are connected to a broker of `topic` (204)."""
        header = group_headers.GetProducerConnectionListHeader(producerGroup=group)
        command = request(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        addresses = (await self.brokers_of(topic)).values()
        answer = await self._ask_in_turn(list(addresses), command)
        return decode_answer(ProducerConnection, answer.body)

    async def all_producers(self, address: str) -> dict[str, list[ProducerInfo]]:
        """Return the producers that are connected to one broker, by group (328)."""
        answer = await self.ask(address, request(RequestCode.GET_ALL_PRODUCER_INFO))
        return decode_answer(ProducerTable, answer.body).data

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> ConsumerRunningInfo:
        """Return what one member reports about itself (307); a broker forwards the request.

        Args:
            group: name of the group.
            client_id: id of the member.
            stacks: whether to ask for the stacks of its threads.
        """
        header = admin_headers.GetConsumerRunningInfoHeader(
            consumerGroup=group, clientId=client_id, jstackEnable=stacks
        )
        command = request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        answer = await self._ask_about(group, command)
        return decode_answer(ConsumerRunningInfo, answer.body)

    async def consume_directly(
        self, address: str, group: str, client_id: str, topic: str, offset_msg_id: str
    ) -> ConsumeDirectlyResult:
        """Make one member consume one message now (309).

        Args:
            address: address of the broker that holds the message.
            group: name of the group.
            client_id: id of the member.
            topic: name of the topic.
            offset_msg_id: offset id of the message.
        """
        header = admin_headers.ConsumeDirectlyHeader(
            consumerGroup=group, clientId=client_id, msgId=offset_msg_id, topic=topic
        )
        command = request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        answer = await self.ask(address, command, SLOW_TIMEOUT_MS)
        return decode_answer(ConsumeDirectlyResult, answer.body)

    async def _ask_about(self, group: str, command: Command) -> Command:
        """Ask the brokers of the group's retry topic, because the members send heartbeats to all of
        them.

        If the retry topic has no route yet, all masters are asked.
        """
        try:
            addresses = list((await self.brokers_of(retry_topic(group))).values())
        except NotFound:
            try:
                return await self._ask_in_turn(list((await self.masters()).values()), command)
            except Refused:
                raise NotFound(f"group {group} is not known: no member ever came") from None
        return await self._ask_in_turn(addresses, command)

    async def _ask_in_turn(self, addresses: list[str], command: Command) -> Command:
        """Return the first successful answer. Else raise the last error, or one that says "not
        online".
        """
        problem: Exception | None = None
        for address in addresses:
            try:
                return await self.ask(address, command, SLOW_TIMEOUT_MS)
            except (NotReachable, Refused) as error:
                if problem is None or is_offline(error):
                    problem = error
        raise problem or NotReachable("no broker is registered now")


def is_offline(error: Exception) -> bool:
    """Whether a broker refused because no member of the group is connected (206)."""
    return isinstance(error, Refused) and error.code == ResponseCode.CONSUMER_NOT_ONLINE
