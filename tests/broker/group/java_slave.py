"""A slave that answers as RocketMQ 5.3's does: no fields and no requests of ours."""

import asyncio
from types import TracebackType
from typing import Self

from tests.broker.client import RawClient

from epochmq.model.topic import TopicConfig
from epochmq.replication.plain.plain_frames import encode_report
from epochmq.runtime.server import RemotingServer
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import HAClientInfo, HARuntimeInfo
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.headers.namesrv_headers import RegisterBrokerHeader
from epochmq.wire.session import Session

HOST = "127.0.0.1"
VERSION = b'"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1}'
TABLES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: b'{%s,"topicConfigTable":{}}' % VERSION,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: b'{%s,"subscriptionGroupTable":{}}' % VERSION,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: b'{"messageRequestModeMap":{}}',
    RequestCode.GET_ALL_CONSUMER_OFFSET: b'{%s,"offsetTable":{"T@g":{0:0}}}' % VERSION,
    RequestCode.GET_ALL_DELAY_OFFSET: b'{%s,"offsetTable":{3:0}}' % VERSION,
}


class JavaSlave:
    """`end` is where its log ends; it copies from whoever announces itself by 906."""

    def __init__(self, namesrv_port: int, end: int = 0) -> None:
        self._namesrv_port = namesrv_port
        self.end = end
        self.follows = ""
        self.port = 0
        self.asked: list[int] = []
        self._server = RemotingServer()
        self._writers: list[asyncio.StreamWriter] = []
        self._dialling: set[asyncio.Task[None]] = set()
        self._client: RawClient | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    async def __aenter__(self) -> Self:
        table = {
            **dict.fromkeys(map(int, TABLES), self._table),
            int(RequestCode.GET_TIMER_CHECK_POINT): self._no_timer,
            int(RequestCode.EXCHANGE_BROKER_HA_INFO): self._exchange,
            int(RequestCode.GET_BROKER_HA_STATUS): self._status,
        }
        self.port = await self._server.start(HOST, 0, Dispatcher(table))
        self._client = await RawClient.connect(self._namesrv_port)
        header = RegisterBrokerHeader("b", self.address, "c", f"{HOST}:1", 1)
        topics = {name: TopicConfig(name, 1, 1) for name in ("T", "U")}
        body = encode_body(RegisterBrokerBody(TopicConfigTable(topics)))
        answer = await self._client.ask(request(RequestCode.REGISTER_BROKER, header, body))
        assert answer.code == 0, answer.remark
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._dialling:
            task.cancel()
        for writer in self._writers:
            writer.close()
        assert self._client is not None
        await self._client.close()
        await self._server.stop(0)

    def _table(self, command: Command, session: Session, now: int) -> Reply:
        self.asked.append(command.code)
        return Reply(body=TABLES[RequestCode(command.code)])

    def _no_timer(self, command: Command, session: Session, now: int) -> Reply:
        return Reply(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")

    def _status(self, command: Command, session: Session, now: int) -> Reply:
        link = HAClientInfo(master_addr=self.follows or None, max_offset=self.end)
        return Reply(body=encode_body(HARuntimeInfo(ha_client_runtime_info=link)))

    def _exchange(self, command: Command, session: Session, now: int) -> Reply:
        self.asked.append(command.code)
        address = (command.ext or {}).get("masterHaAddress", "")
        if address and address != self.follows:
            self.follows = address
            task = asyncio.get_running_loop().create_task(self._dial(address))
            self._dialling.add(task)
        return Reply()

    async def _dial(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        self._writers.append(writer)
        writer.write(encode_report(self.end))
