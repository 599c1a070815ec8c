"""Switches a broker's role: updates its rights, its group position and its tables.

The caller changes replication before a broker becomes master, and after it stopped being master:
the broker may have fewer rights than its log allows, never more (INV-25, INV-32).
"""

from collections.abc import Callable

from epochmq.base.unbounded import FOREVER
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.membership_effects import BecomeFollower, BecomeMaster
from epochmq.broker.group.replicated_tables import recover_topics
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.roles import Role


class RoleSwitch:
    """Changes the role; `changed` is called after each change."""

    def __init__(self, node: BrokerContext, changed: Callable[[], None]) -> None:
        self._node = node
        self._changed = changed

    def fence(self) -> None:
        """Serve nothing; waiting pull requests are answered."""
        if self._node.serving.role is not Role.FENCED:
            self._swap(Role.FENCED)

    def follow(self, role: BecomeFollower) -> None:
        node = self._node
        node.move_to(
            GroupPosition(
                own_id=node.group_position.own_id,
                epoch=role.epoch,
                master_id=role.master_id,
                master_address=role.master_address,
            )
        )
        self._swap(Role.LEARNER if role.learner else Role.SLAVE)

    def lead(self, role: BecomeMaster, wall: int) -> list[str]:
        """Become master of `role.epoch`, for which the log is ready; return recovered topics.

        Routes compare the tables' state version: the higher epoch is the master (rocketmq#6316).
        """
        node = self._node
        node.topics.frozen = False
        healed = recover_topics(node, wall)
        for table in (node.topics, node.groups, node.offsets, node.accounts):
            table.state_version = role.epoch
        node.topics.step_version(wall)
        node.update_users(leads=True)
        node.move_to(
            GroupPosition(
                own_id=node.group_position.own_id,
                epoch=role.epoch,
                master_id=node.group_position.own_id,
                set_epoch=role.set_epoch,
                members=role.members,
            )
        )
        node.serving.deliver_from(node.store.pointers.appended)
        self._swap(Role.MASTER)
        return healed

    def earlier_confirmed(self) -> None:
        """Resume delayed messages once everything from before this master's time is confirmed."""
        node = self._node
        if (
            node.serving.delivers_from is not None
            and node.store.pointers.confirmed >= node.serving.delivers_from
        ):
            node.serving.deliver_from(None)
            node.delivery.clamp()
            node.schedule.look_again()

    def _swap(self, role: Role) -> None:
        node = self._node
        node.serving.change_role(role)
        if role is not Role.MASTER:
            node.serving.grant_lease(FOREVER)
            node.serving.deliver_from(None)
            if role is Role.FENCED:
                node.move_to(
                    GroupPosition(
                        own_id=node.group_position.own_id, epoch=node.group_position.epoch
                    )
                )
        self._changed()
