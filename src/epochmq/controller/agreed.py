"""Settings that must be the same for every leader: they are part of the replicated state (defects,
part 3.20).

The switch for unclean elections is set by the first leader's file and then changed only by request.
The longest lease that any leader gives is recorded before it is given. So a leader whose own file
has a shorter lease still waits for the longer one.
"""

import logging

from epochmq.controller.commands import SetSetting
from epochmq.controller.controller_context import LEASE, ControllerContext
from epochmq.controller.machine import CommandOutcome
from epochmq.controller.options import UNCLEAN

log = logging.getLogger(__name__)


class Agreed:
    """Proposes and checks these settings at the leader."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._lowering = False

    def propose_missing(self) -> None:
        """Propose the settings that are missing, after this controller became leader."""
        self._lowering = False
        context = self._context
        own = "true" if context.options.enable_elect_unclean_master else "false"
        agreed = context.machine.settings.get(UNCLEAN)
        if agreed is None:
            self._set(UNCLEAN, own)
        elif agreed != own:
            log.warning(
                "%(option)s is %(agreed)s for all controllers, whatever this one's file says"
                " (%(own)s); change it by updateControllerConfig",
                {"option": UNCLEAN, "agreed": agreed, "own": own},
            )
        if context.agreed_lease_ms < context.times.lease_ms:
            self._set(LEASE, str(context.times.lease_ms))

    def tick(self) -> None:
        """Shorten the recorded lease when longer leases of earlier leaders are over."""
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
