"""Collects the state that `top` shows from name servers, controllers and brokers."""

import asyncio
import dataclasses
import time
from collections.abc import Iterable, Mapping

from epochmq.admin.top.cluster_view import BrokerGroupView, ClusterView, ReplicaView
from epochmq.base.errors import EpochError
from epochmq.client.aio import Admin
from epochmq.model.topic import BrokerData
from epochmq.wire.bodies.controller_bodies import ReplicasInfo

CONTROLLER_ADDR = "controllerAddr"
MEASURE_S = 1.0
"""Time for the figures of one broker: a broker that is paused must not delay the others."""


class Looker:
    """Returns the current `ClusterView`; finds the controllers itself."""

    def __init__(self, admin: Admin, controllers: Iterable[str] = ()) -> None:
        self._admin = admin
        self._controllers = list(controllers)

    async def look(self) -> ClusterView:
        """Return the current state; `problem` reports a name server that does not answer."""
        wall = time.time_ns() // 1_000_000
        try:
            brokers = await self._admin.broker_groups()
        except EpochError as error:
            return ClusterView(wall, None, problem=str(error))
        if not self._controllers:
            self._controllers = await self._ask_brokers(brokers.values())
        leader, states = await self._states(brokers)
        groups = await asyncio.gather(
            *(self._group(name, data, states) for name, data in brokers.items())
        )
        return ClusterView(wall, leader, tuple(self._controllers), tuple(groups))

    async def _ask_brokers(self, groups: Iterable[BrokerData]) -> list[str]:
        """Return the controllers' addresses from the configuration of any broker."""
        for data in groups:
            for address in data.broker_addrs.values():
                try:
                    config = await self._admin.broker_config(address)
                except EpochError:
                    continue
                text = config.get(CONTROLLER_ADDR, "")
                return [part.strip() for part in text.split(";") if part.strip()]
        return []

    async def _states(self, names: Iterable[str]) -> tuple[str | None, dict[str, ReplicasInfo]]:
        for address in self._controllers:
            try:
                leader = await self._admin.controller_leader(address)
                return leader, await self._admin.sync_states(address, names)
            except EpochError:
                continue
        return None, {}

    async def _group(
        self, name: str, data: BrokerData, states: dict[str, ReplicasInfo]
    ) -> BrokerGroupView:
        state = states.get(name)
        if state is None:
            master = data.broker_addrs.get(0)
            plain = (
                self._plain(ReplicaView(address, broker_id, True, None, broker_id == 0))
                for broker_id, address in sorted(data.broker_addrs.items())
            )
            return BrokerGroupView(name, master, 0, 0, tuple(await asyncio.gather(*plain)))
        master = state.master_address or None
        replicas = [
            ReplicaView(
                each.broker_address or "",
                each.broker_id,
                each.alive,
                inside,
                each.broker_address == master,
            )
            for inside, members in (
                (True, state.in_sync_replicas),
                (False, state.not_in_sync_replicas),
            )
            for each in members
        ]
        replicas.sort(key=lambda replica: replica.broker_id)
        measured = await self._measured(replicas)
        return BrokerGroupView(
            name, master, state.master_epoch, state.sync_state_set_epoch, measured
        )

    async def _plain(self, replica: ReplicaView) -> ReplicaView:
        """Complete a replica without controllers: its figures, and the backlog of an acting master.

        It is alive if it answers: name servers list a broker for some time after it stopped.
        """
        try:
            async with asyncio.timeout(MEASURE_S):
                figures = await self._admin.runtime_info(replica.address)
        except (EpochError, TimeoutError):
            return dataclasses.replace(replica, alive=False)
        acting = figures.get("epochmqRole") == "ACTING_MASTER"
        return dataclasses.replace(
            replica,
            is_master=replica.is_master and not acting,
            max_offset=_number(figures, "commitLogMaxOffset"),
            acting=acting,
            backlog=_sum(figures, "epochmqEscapeWaiting", "epochmqEscapeInFlight"),
            in_rate=_rate(figures, "putTps"),
            out_rate=_rate(figures, "getTransferredTps"),
        )

    async def _measured(self, replicas: list[ReplicaView]) -> tuple[ReplicaView, ...]:
        return tuple(await asyncio.gather(*map(self._measure, replicas)))

    async def _measure(self, replica: ReplicaView) -> ReplicaView:
        """Return the replica with its log's end and last epoch, if it answers."""
        if not replica.alive:
            return replica
        try:
            async with asyncio.timeout(MEASURE_S):
                epochs, figures = await asyncio.gather(
                    self._admin.broker_epochs(replica.address),
                    self._admin.runtime_info(replica.address),
                )
        except (EpochError, TimeoutError):
            return replica
        last = epochs.epoch_list[-1] if epochs.epoch_list else None
        return dataclasses.replace(
            replica,
            max_offset=epochs.max_offset,
            epoch=last.epoch if last is not None else None,
            has_confirmed=last is not None and epochs.confirm_offset > last.start_offset,
            in_rate=_rate(figures, "putTps"),
            out_rate=_rate(figures, "getTransferredTps"),
        )


def _number(figures: Mapping[str, str], key: str) -> int | None:
    text = figures.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _rate(figures: Mapping[str, str], key: str) -> float | None:
    """Return the first of the rates in a text like "12.5 10.0 9.8" (10 s, 1 min, 10 min)."""
    first = figures.get(key, "").partition(" ")[0]
    try:
        return float(first)
    except ValueError:
        return None


def _sum(figures: Mapping[str, str], *keys: str) -> int | None:
    """Return the sum of the figures; None when the broker reports none of them."""
    told = [number for key in keys if (number := _number(figures, key)) is not None]
    return sum(told) if told else None
