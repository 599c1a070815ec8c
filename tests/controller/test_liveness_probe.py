"""Trying a broker's port after its connection closed."""

import dataclasses

from tests.controller.world import KEY, options

from epochmq.controller.controller_context import ControllerContext
from epochmq.controller.controller_effects import Dial
from epochmq.controller.liveness import LiveProcess
from epochmq.controller.liveness_probe import RETRY_MS, LivenessProbe
from epochmq.controller.machine import Machine


def closed(context: ControllerContext) -> LiveProcess:
    live = context.live.heard(KEY, 1, 7, 0, 10_000)
    assert live is not None
    live.address = "h:1"
    context.live.closed(7)
    return live


def taken(context: ControllerContext) -> list[Dial]:
    found = [effect for effect in context.effects if isinstance(effect, Dial)]
    context.effects.clear()
    return found


def test_a_refused_connection_means_gone() -> None:
    context = ControllerContext(Machine(), options())
    liveness_probe, live = LivenessProbe(context), closed(context)
    liveness_probe.try_at(live)
    (dial,) = taken(context)
    assert dial.address == "h:1"
    assert liveness_probe.dialed(dial.ticket, True) == KEY
    assert live.gone
    assert liveness_probe.dialed(dial.ticket, True) is None


def test_anything_else_is_tried_again_a_few_times() -> None:
    context = ControllerContext(Machine(), options())
    liveness_probe, live = LivenessProbe(context), closed(context)
    liveness_probe.try_at(live)
    for wait_ms in RETRY_MS:
        (dial,) = taken(context)
        assert liveness_probe.dialed(dial.ticket, False) is None
        assert liveness_probe.next_deadline() == context.now + wait_ms
        context.now += wait_ms - 1
        liveness_probe.tick()
        assert taken(context) == []
        context.now += 1
        liveness_probe.tick()
    (dial,) = taken(context)
    assert liveness_probe.dialed(dial.ticket, False) is None
    assert liveness_probe.next_deadline() is None
    assert not live.gone


def test_a_broker_that_spoke_again_is_not_gone() -> None:
    context = ControllerContext(Machine(), options())
    liveness_probe, live = LivenessProbe(context), closed(context)
    liveness_probe.try_at(live)
    (dial,) = taken(context)
    context.live.heard(KEY, 1, 8, 5, 10_000)
    assert liveness_probe.dialed(dial.ticket, True) is None
    assert not live.gone


def test_where_refusals_prove_nothing_nobody_knocks() -> None:
    context = ControllerContext(Machine(), options())
    context.change_options(dataclasses.replace(context.options, trust_refused_connections=False))
    LivenessProbe(context).try_at(closed(context))
    assert taken(context) == []
