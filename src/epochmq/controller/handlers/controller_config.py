"""UPDATE_CONTROLLER_CONFIG 1009, GET_CONTROLLER_CONFIG 1010 and CONTROLLER_GET_TIMELINE 34002.

Only options that may change at run time are accepted. A change holds for this controller and is
kept over its restart. If one option may not change, none is changed (CVE-2023-37582). The switch
for unclean elections is replicated instead, so that it is the same for every leader; only the
leader accepts it.
"""

from epochmq.base import limits
from epochmq.base.errors import ConfigError, Refused
from epochmq.base.options import change, describe, parse_properties, render_properties
from epochmq.controller.commands import SetSetting
from epochmq.controller.controller_core import ControllerCore
from epochmq.controller.options import KEPT_BACK, UNCLEAN, ControllerOptions
from epochmq.controller.steps import ControllerCall, Steps, Write
from epochmq.controller.timeline import Failover
from epochmq.runtime.logging_setup import set_level
from epochmq.runtime.server_log_options import LOG_LEVEL
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.controller_bodies import FailoverData, TimelineData
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Reply

_MUTABLE = frozenset(row.key for row in describe(ControllerOptions) if row.mutable)


def handle_update_config(core: ControllerCore, call: ControllerCall) -> Steps:
    """Change options. Raises `Refused` 16 for options that may not change, 1 for invalid values."""
    told = _read(call)
    context = core.context
    try:
        options = change(context.options, told)
    except ConfigError as error:
        allowed = told.keys() <= _MUTABLE and not told.keys() & KEPT_BACK
        code = ResponseCode.SYSTEM_ERROR if allowed else ResponseCode.NO_PERMISSION
        raise Refused(code, str(error)) from None
    if UNCLEAN in told:
        value = "true" if options.enable_elect_unclean_master else "false"
        yield Write(SetSetting("", UNCLEAN, value=value))
    if told:
        core.config.save(told)
        if LOG_LEVEL in told:
            set_level(options.log_level)
        context.change_options(options)
    return Reply()


def _read(call: ControllerCall) -> dict[str, str]:
    if len(call.request.body) > limits.CONFIG_BODY_BYTES_MAX:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the properties text is too long")
    try:
        return parse_properties(bytes(call.request.body).decode())
    except (ConfigError, UnicodeDecodeError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"not a properties text: {error}") from None


def handle_get_config(core: ControllerCore, call: ControllerCall) -> Reply:
    """Return all options; the switch for unclean elections comes from the replicated state."""
    context = core.context
    options = context.options
    if UNCLEAN in context.machine.settings:
        options = change(options, {UNCLEAN: context.machine.settings[UNCLEAN]})
    return Reply(body=render_properties((options,)).encode())


# Timeline handler ----------------------------------------------------------------------------
# CONTROLLER_GET_TIMELINE 34002: the latest elections, with ages in ms.


def handle_timeline(core: ControllerCore, call: ControllerCall) -> Reply:
    """Return the latest elections, oldest first."""
    now = core.context.now
    found = [_told(failover, now) for failover in core.context.timeline.failovers]
    return Reply(body=encode_body(TimelineData(found)))


def _told(failover: Failover, now: int) -> FailoverData:
    def age(at_ms: int) -> int:
        return -1 if at_ms < 0 else now - at_ms

    return FailoverData(
        *failover.key,
        epoch=failover.epoch,
        master_broker_id=failover.master,
        master_address=failover.address,
        last_heard_ago_ms=age(failover.last_heard_ms),
        detected_ago_ms=age(failover.detected_ms),
        elected_ago_ms=age(failover.elected_ms),
        applied_ago_ms=age(failover.applied_ms),
    )
