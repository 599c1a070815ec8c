"""Settings that must not depend on who leads: kept in the replicated state (defects, part 3.20).

The switch for unclean elections is set by the first leader's file and changed by command alone. The
longest lease that any leader gives is recorded before it is given, so that a leader whose own file
says less still waits for it.
"""

import logging

from epochmq.controller.commands import SetSetting
from epochmq.controller.desk import LEASE, Desk
from epochmq.controller.machine import Outcome
from epochmq.controller.options import UNCLEAN

log = logging.getLogger(__name__)


class Agreed:
    """The leader's side of it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lowering = False

    def settle(self) -> None:
        """We lead: say what nobody said yet, and keep to what was said."""
        self._lowering = False
        desk = self._desk
        own = "true" if desk.options.enable_elect_unclean_master else "false"
        agreed = desk.machine.settings.get(UNCLEAN)
        if agreed is None:
            self._set(UNCLEAN, own)
        elif agreed != own:
            log.warning(
                "%s is %s for all controllers, whatever this one's file says (%s); change it by "
                "updateControllerConfig",
                UNCLEAN,
                agreed,
                own,
            )
        if desk.agreed_lease_ms < desk.times.lease_ms:
            self._set(LEASE, str(desk.times.lease_ms))

    def tick(self) -> None:
        """Longer leases than ours, of leaders before us, are over some day."""
        desk = self._desk
        longer = desk.agreed_lease_ms
        if longer > desk.times.lease_ms and not self._lowering:
            if desk.now > desk.since + longer + desk.times.skew_ms:
                self._lowering = True
                self._set(LEASE, str(desk.times.lease_ms))

    def _set(self, name: str, value: str) -> None:
        self._desk.write(SetSetting("", name, value=value), self._done)

    def _done(self, outcome: Outcome | None) -> None:
        self._lowering = False
