"""Administration of consumer groups: their configuration, their members, their producers."""

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.client.aio.admin_calls import SLOW_TIMEOUT_MS, Caller
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.names import check_group, retry_topic
from epochmq.wire.bodies.body import decode_answer, encode_body
from epochmq.wire.bodies.group_bodies import (
    ConsumerConnection,
    ProducerConnection,
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
    """Calls about groups."""

    async def put_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create or change a consumer group on one broker (200)."""
        check_group(config.group_name)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self.ask(address, request(code, None, encode_body(config)))

    async def delete_group(self, address: str, group: str, *, clean_offsets: bool = False) -> None:
        """Delete a consumer group on one broker (207), with its offsets if wanted."""
        header = headers.DeleteGroupHeader(groupName=group, cleanOffset=clean_offsets)
        await self.ask(address, request(RequestCode.DELETE_SUBSCRIPTIONGROUP, header))

    async def groups(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """All consumer groups of one broker (201), its system's as well."""
        answer = await self.ask(address, request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
        return decode_answer(SubscriptionGroupTable, answer.body).subscription_group_table

    async def group_config(self, address: str, group: str) -> SubscriptionGroupConfig:
        """One group's configuration on one broker (352)."""
        header = headers.GetGroupConfigHeader(group=group)
        answer = await self.ask(address, request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header))
        return decode_answer(SubscriptionGroupConfig, answer.body)

    async def set_request_mode(
        self, address: str, topic: str, group: str, mode: str, sharing: int = 0
    ) -> None:
        """Have a group "PULL" or "POP" a topic of one broker (401); `sharing` is for POP."""
        body = MessageRequestMode(topic, group, mode=mode, pop_share_queue_num=sharing)
        code = RequestCode.SET_MESSAGE_REQUEST_MODE
        await self.ask(address, request(code, None, encode_body(body)))

    async def topics_of_group(self, address: str, group: str) -> list[str]:
        """Topics a group has offsets of on one broker (343)."""
        header = headers.QueryTopicsByConsumerHeader(group=group)
        answer = await self.ask(address, request(RequestCode.QUERY_TOPICS_BY_CONSUMER, header))
        return decode_answer(TopicList, answer.body).topic_list

    async def consumers(self, group: str, address: str | None = None) -> ConsumerConnection:
        """The members of a consumer group that are there now (203).

        Members greet every broker of their topics, so the first that knows the group will do.
        `Refused` with 206 when nobody is there.
        """
        header = group_headers.GetConsumerConnectionListHeader(consumerGroup=group)
        command = request(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        if address is not None:
            return decode_answer(ConsumerConnection, (await self.ask(address, command)).body)
        answer = await self._ask_about(group, command)
        return decode_answer(ConsumerConnection, answer.body)

    async def producers(self, group: str, topic: str) -> ProducerConnection:
        """The producers of a group that greeted a broker of `topic` (204)."""
        header = group_headers.GetProducerConnectionListHeader(producerGroup=group)
        command = request(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        addresses = (await self.brokers_of(topic)).values()
        answer = await self._ask_in_turn(list(addresses), command)
        return decode_answer(ProducerConnection, answer.body)

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> ConsumerRunningInfo:
        """What one member does inside, by its own word (307); the broker passes it on."""
        header = admin_headers.GetConsumerRunningInfoHeader(
            consumerGroup=group, clientId=client_id, jstackEnable=stacks
        )
        command = request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        answer = await self._ask_about(group, command)
        return decode_answer(ConsumerRunningInfo, answer.body)

    async def consume_directly(
        self, address: str, group: str, client_id: str, topic: str, offset_msg_id: str
    ) -> ConsumeDirectlyResult:
        """Have one member consume one message now (309), by the broker that holds it."""
        header = admin_headers.ConsumeDirectlyHeader(
            consumerGroup=group, clientId=client_id, msgId=offset_msg_id, topic=topic
        )
        command = request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        answer = await self.ask(address, command, SLOW_TIMEOUT_MS)
        return decode_answer(ConsumeDirectlyResult, answer.body)

    async def _ask_about(self, group: str, command: Command) -> Command:
        """Ask the brokers of the group's retry topic, its members greet them all.

        The route of a group's first member may not be known yet: then all masters are asked.
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
        """The first success; else the last problem, where "nobody online" tells most."""
        problem: Exception | None = None
        for address in addresses:
            try:
                return await self.ask(address, command, SLOW_TIMEOUT_MS)
            except (NotReachable, Refused) as error:
                if problem is None or is_offline(error):
                    problem = error
        raise problem or NotReachable("no broker is registered now")


def is_offline(error: Exception) -> bool:
    """Whether a broker refused because no member of the group is there (206)."""
    return isinstance(error, Refused) and error.code == ResponseCode.CONSUMER_NOT_ONLINE
