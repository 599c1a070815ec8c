"""What tests of other packages need of the inside of a controller's process."""

from epochmq.controller.server import controller_server
from epochmq.controller.server.controller_server import Controller, EmbeddedController
from epochmq.runtime.peers import Peer


def connection_to(controller: Controller, name: str) -> Peer | None:
    """The open connection to another controller; None while there is none."""
    peer = controller._links[name]._peer
    return None if peer is None or peer.session.closed else peer


def is_refused(controller: Controller, name: str) -> bool:
    """Whether another controller has closed the connection; then the connection is forgotten."""
    link = controller._links[name]
    if link._peer is None or not link._peer.session.closed:
        return False
    link._peer = None
    return True


def write_to(controller: Controller, name: str, data: bytes) -> None:
    """Write these bytes on the connection to another controller."""
    controller._links[name].send(data)


async def cut_off(embedded: EmbeddedController) -> None:
    """Nobody reaches this controller any more."""
    assert embedded._own is not None
    await embedded._own.stop(0)


async def let_in(embedded: EmbeddedController) -> None:
    """It can be reached again."""
    embedded._own = controller_server._server(embedded.controller.options)
    await controller_server._listen(embedded._own, embedded.controller)
