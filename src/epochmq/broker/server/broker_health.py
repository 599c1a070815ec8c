"""What the health endpoint of a broker answers; see `runtime/health_server.py`."""

from collections.abc import Callable

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.context.broker_problem import problem_of, replica_problem_of
from epochmq.runtime.health_server import Health


def health_checks(
    node: BrokerContext, registered: Callable[[], bool]
) -> dict[str, Callable[[], Health]]:
    """Return the answers by path; `registered` tells whether a name server knows the broker.

    - `/-/master`: the broker is the master of its group and accepts sends now.
    - `/-/serving`: the same, or it is an acting master (RIP-32).
    - `/-/live`: the process answers.
    - `/-/healthy`: nothing keeps the broker from its work; if not, `reason` says what does.
    - `/-/ready`: healthy, clients can reach it, because a name server has its registration, and a
      slave copies and is in the sync-state set. A rolling restart that waits for it loses no
      redundancy.
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

    def healthy() -> Health:
        reason = problem_of(node)
        return Health(not reason, {**facts(), "reason": reason})

    def ready() -> Health:
        reason = problem_of(node) or not_registered() or replica_problem_of(node)
        return Health(not reason, {**facts(), "reason": reason})

    def not_registered() -> str:
        return "" if registered() else "registered at no name server"

    return {
        "/-/master": master,
        "/-/serving": serving,
        "/-/live": live,
        "/-/healthy": healthy,
        "/-/ready": ready,
    }
