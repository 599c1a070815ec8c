"""Settings that must not depend on who leads: kept in the replicated state (defects, part 3.20).

The switch for unclean elections is set by the first leader's file and changed by command alone. The
longest lease that any leader gives is recorded before it is given, so that a leader whose own file
says less still waits for it.
"""

import logging

from epochmq.controller.commands import SetSetting
from epochmq.controller.controller_context import LEASE, ControllerContext
from epochmq.controller.machine import CommandOutcome
from epochmq.controller.options import UNCLEAN

log = logging.getLogger(__name__)


class Agreed:
    """The leader's side of it."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._lowering = False

    def propose_missing(self) -> None:
        """We lead: say what nobody said yet, and keep to what was said."""
        self._lowering = False
        context = self._context
        own = "true" if context.options.enable_elect_unclean_master else "false"
        agreed = context.machine.settings.get(UNCLEAN)
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
        if context.agreed_lease_ms < context.times.lease_ms:
            self._set(LEASE, str(context.times.lease_ms))

    def tick(self) -> None:
        """Longer leases than ours, of leaders before us, are over some day."""
        context = self._context
        longer = context.agreed_lease_ms
        if longer > context.times.lease_ms and not self._lowering:
            if context.now > context.since + longer + context.times.skew_ms:
                self._lowering = True
                self._set(LEASE, str(context.times.lease_ms))

    def _set(self, name: str, value: str) -> None:
        self._context.write(SetSetting("", name, value=value), self._done)

    def _done(self, outcome: CommandOutcome | None) -> None:
        self._lowering = False
