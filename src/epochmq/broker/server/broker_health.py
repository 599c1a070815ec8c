"""What the health endpoint of a broker answers; see `runtime/health_server.py`."""

from collections.abc import Callable

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.runtime.health_server import Health


def health_checks(node: BrokerContext) -> dict[str, Callable[[], Health]]:
    """Return the answers by path.

    - `/-/master`: the broker is the master of its group and accepts sends now.
    - `/-/serving`: the same, or it is an acting master (RIP-32).
    - `/-/live`: the process answers.
    """

    def facts() -> dict[str, object]:
        serving = node.serving
        return {
            "brokerName": node.options.broker_name,
            "address": node.address,
            "role": serving.role.name,
            "writable": serving.rights.writable,
            "epoch": node.group_position.epoch,
        }

    def master() -> Health:
        return Health(node.serving.rights.writable, facts())

    def serving() -> Health:
        return Health(node.serving.rights.writable or node.serving.rights.secondary, facts())

    def live() -> Health:
        return Health(True, facts())

    return {"/-/master": master, "/-/serving": serving, "/-/live": live}
