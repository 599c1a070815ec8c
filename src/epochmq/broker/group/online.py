"""Going online in controller mode: get a broker id once, then register, step by step.

The states are those of RocketMQ's ReplicasManager, with three differences. The id is written before
the temporary file is removed. A request without an answer is repeated with the same check code, so
that it is idempotent. A controller that does not know this broker (2010: it was wiped) is asked to
take back the broker's id, where RocketMQ's broker repeats its registration for ever.
"""

from epochmq.broker.group.broker_identity import Temp
from epochmq.broker.group.controller_requests import ControllerAnswer, ControllerRequests
from epochmq.broker.group.member_options import MembershipOptions
from epochmq.broker.group.membership_effects import (
    DropTemp,
    Effect,
    Question,
    SaveIdentity,
    SaveTemp,
)
from epochmq.wire.codes import ResponseCode as Code
from epochmq.wire.command import Command

PAUSE_MS = 50
PAUSE_MAX_MS = 1000


class Online:
    """The state of identity and registration, and the pace of requests."""

    def __init__(
        self,
        options: MembershipOptions,
        messages: ControllerRequests,
        broker_id: int | None,
        temp: Temp | None,
    ) -> None:
        self._address = options.address
        self._messages = messages
        self.broker_id = broker_id
        self.temp = temp
        self.registered = False
        self.at_ms = 0
        """The earliest time of the next request (ms)."""
        self._pause_ms = PAUSE_MS
        self.problem = ""
        """Why there is no progress, for the log; "" when there is."""

    @property
    def done(self) -> bool:
        return self.broker_id is not None and self.registered

    def question(self, now: int, wall: int, floor: int) -> tuple[Question, Command] | None:
        """Return the request for the active controller that is due now, or None."""
        if self.done or now < self.at_ms:
            return None
        self.at_ms = now + self._pause_ms
        if self.temp is not None:
            return Question.APPLY_ID, self._messages.apply_id(self.temp)
        if self.broker_id is None:
            return Question.NEXT_ID, self._messages.next_id()
        return Question.REGISTER, self._messages.register(self.broker_id, wall, floor)

    def on_next_id(
        self, command: Command, answer: ControllerAnswer, now: int, wall: int
    ) -> list[Effect]:
        if command.code != Code.SUCCESS or not answer.nextBrokerId or self.broker_id is not None:
            self.slower("the controller gives no broker id", command, now)
            return []
        self.temp = Temp(answer.nextBrokerId, f"{self._address};{wall}")
        self.quick(now)
        return [SaveTemp(self.temp)]

    def on_applied(self, command: Command, now: int) -> list[Effect]:
        temp = self.temp
        if temp is None:
            return []
        if command.code == Code.SUCCESS:
            self.quick(now)
            self.temp = None
            self.broker_id = temp.broker_id
            return [SaveIdentity(temp.broker_id)]
        if command.code != Code.CONTROLLER_BROKER_ID_INVALID:
            self.slower("the controller does not give the broker id", command, now)
            return []
        self.temp = None
        if self.broker_id is None:  # another broker got the id first
            self.quick(now)
        else:
            self.slower("the controller refuses this broker's id", command, now)
        return [DropTemp()]

    def on_registered(self, command: Command, now: int, wall: int) -> bool:
        """Return whether `command` is a successful answer to the registration."""
        if command.code == Code.SUCCESS:
            self.registered = True
            self.quick(now)
            return True
        if command.code == Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED and self.broker_id:
            self.temp = Temp(self.broker_id, f"{self._address};{wall}")
        self.slower("the controller does not register this broker", command, now)
        return False

    def forgotten(self, now: int) -> bool:
        """Register again, because a controller does not know this broker; return whether it was
        registered until now."""
        if not self.registered:
            return False
        self.registered = False
        self.quick(now)
        return True

    def quick(self, now: int) -> None:
        """Note progress: the next request is due at once."""
        self._pause_ms = PAUSE_MS
        self.at_ms = now
        self.problem = ""

    def slower(self, what: str, command: Command, now: int) -> None:
        """Note a failure: the next request follows after a pause that doubles."""
        self.problem = f"{what}: {command.code} {command.remark or ''}".rstrip()
        self.wait(now)

    def wait(self, now: int) -> None:
        self._pause_ms = min(2 * self._pause_ms, PAUSE_MAX_MS)
        self.at_ms = now + self._pause_ms
