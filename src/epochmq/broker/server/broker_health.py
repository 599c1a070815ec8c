"""What the health endpoint of a broker answers; see `runtime/health_server.py`."""

from collections.abc import Callable

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.serving.roles import Role
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
      slave is in the sync-state set. A rolling restart that waits for it loses no redundancy.
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
        reason = problem_of(node) or not_ready_reason()
        return Health(not reason, {**facts(), "reason": reason})

    def not_ready_reason() -> str:
        if not registered():
            return "registered at no name server"
        if node.serving.role is Role.SLAVE and node.replica and not node.replica.is_in_sync:
            return "not in the sync-state set: it copies what it lacks from its master"
        return ""

    return {
        "/-/master": master,
        "/-/serving": serving,
        "/-/live": live,
        "/-/healthy": healthy,
        "/-/ready": ready,
    }


def problem_of(node: BrokerContext) -> str:
    """Return what keeps the broker from its work; empty if nothing does."""
    store, role = node.store, node.serving.role
    if store.fenced:
        return f"the store writes nothing more: {store.fenced}"
    if store.damage.ranges:
        return f"the log is damaged: {store.damage.ranges[0]}"
    if role is Role.PRE_ONLINE:
        return "not online yet: it copies what its group did without it"
    if role is Role.FENCED:
        return "it has no role in its group"
    if node.serving.is_master and not node.serving.rights.registers:
        return "its lease is over: no controller answers"
    if store.disk_full:
        return "the disk is full: sends are refused"
    return ""
