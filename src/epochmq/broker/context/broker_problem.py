"""Why a broker is not well: one judgement for the health endpoint and the runtime information.

The health endpoint (`broker/server/broker_health.py`) answers it over HTTP. The runtime information
answers it as `epochmqProblem`, which `epochmq cluster show` and the dashboard print.
"""

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.serving.roles import Role


def problem_of(node: BrokerContext) -> str:
    """Return what keeps the broker from its work; empty if nothing does."""
    store, role = node.store, node.serving.role
    if store.fenced:
        return f"the store is fenced, it writes nothing more: {store.fenced}"
    if store.damage.ranges:
        first, *others = store.damage.ranges
        more = f" (and {len(others)} more)" if others else ""
        return f"a damaged range of the log waits for a repair: {first}{more}"
    if role is Role.PRE_ONLINE:
        return "not online yet: it copies what its group did without it"
    if role is Role.FENCED:
        return "it serves nothing: it has no role in its group now"
    if node.serving.is_master and not node.serving.rights.registers:
        return "its lease is over: no controller answers"
    if store.disk_full:
        return "the disk is full: sends are refused"
    if store.out_of_resources:
        return "no file descriptors or memory are left: sends are refused"
    return ""


def replica_problem_of(node: BrokerContext) -> str:
    """Return why this slave does not protect what its master acknowledges; empty if it does."""
    replica = node.replica
    if node.serving.role is not Role.SLAVE or replica is None:
        return ""
    if replica.copy_problem:
        return f"nothing is copied: {replica.copy_problem}"
    if not replica.is_in_sync:
        return "not in the sync-state set: it copies what it lacks from its master"
    return ""


def any_problem_of(node: BrokerContext) -> str:
    """Return the first problem that an operator should know; empty if there is none.

    A block of the log that differs from another replica's does not keep the broker from its work,
    and no health check should restart the broker for it: only an operator can decide which one is
    right.
    """
    problem = problem_of(node) or replica_problem_of(node)
    if not problem and node.differences:
        more = f" (and {len(node.differences) - 1} more)" if len(node.differences) > 1 else ""
        return f"a block of the log differs from another replica's: {node.differences.first}{more}"
    return problem
