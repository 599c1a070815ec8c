"""Requests of a broker to other servers are signed if it has credentials."""

from epochmq.auth.signature import is_signed_by
from epochmq.broker.config.broker_peers import broker_peers
from epochmq.broker.config.options import BrokerOptions
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.server import RemotingServer
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.dispatcher import Dispatcher

INNER = '{"accessKey":"inner","secretKey":"secret"}'


async def test_requests_and_oneway_requests_are_signed() -> None:
    heard: list[Command] = []

    def handle(command: Command, session: object, now: int) -> Reply:
        heard.append(command)
        return Reply()

    server = RemotingServer(Bounds())
    port = await server.start("127.0.0.1", 0, Dispatcher({34: handle, 35: handle}))
    address = f"127.0.0.1:{port}"
    for text in (INNER, ""):
        peers = broker_peers(BrokerOptions(inner_client_authentication_credentials=text))
        await peers.oneway(address, request(35, {"clientID": "c"}))
        await peers.invoke(address, request(34, None, b"{}"), 3_000)
        await peers.close()
    await server.stop()
    assert [command.code for command in heard] == [35, 34, 35, 34]
    assert [is_signed_by(command, "secret") for command in heard] == [True, True, False, False]
