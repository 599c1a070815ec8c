"""Trying a broker's port after its connection closed."""

import dataclasses

from tests.controller.world import KEY, options

from epochmq.controller.desk import Desk
from epochmq.controller.doors import RETRY_MS, Doors
from epochmq.controller.effects import Dial
from epochmq.controller.liveness import Live
from epochmq.controller.machine import Machine


def closed(desk: Desk) -> Live:
    live = desk.live.heard(KEY, 1, 7, 0, 10_000)
    assert live is not None
    live.address = "h:1"
    desk.live.closed(7)
    return live


def taken(desk: Desk) -> list[Dial]:
    found = [effect for effect in desk.effects if isinstance(effect, Dial)]
    desk.effects.clear()
    return found


def test_a_refused_connection_means_gone() -> None:
    desk = Desk(Machine(), options())
    doors, live = Doors(desk), closed(desk)
    doors.try_at(live)
    (dial,) = taken(desk)
    assert dial.address == "h:1"
    assert doors.dialed(dial.ticket, True) == KEY
    assert live.gone
    assert doors.dialed(dial.ticket, True) is None


def test_anything_else_is_tried_again_a_few_times() -> None:
    desk = Desk(Machine(), options())
    doors, live = Doors(desk), closed(desk)
    doors.try_at(live)
    for wait_ms in RETRY_MS:
        (dial,) = taken(desk)
        assert doors.dialed(dial.ticket, False) is None
        assert doors.next_deadline() == desk.now + wait_ms
        desk.now += wait_ms - 1
        doors.tick()
        assert taken(desk) == []
        desk.now += 1
        doors.tick()
    (dial,) = taken(desk)
    assert doors.dialed(dial.ticket, False) is None
    assert doors.next_deadline() is None
    assert not live.gone


def test_a_broker_that_spoke_again_is_not_gone() -> None:
    desk = Desk(Machine(), options())
    doors, live = Doors(desk), closed(desk)
    doors.try_at(live)
    (dial,) = taken(desk)
    desk.live.heard(KEY, 1, 8, 5, 10_000)
    assert doors.dialed(dial.ticket, True) is None
    assert not live.gone


def test_where_refusals_prove_nothing_nobody_knocks() -> None:
    desk = Desk(Machine(), options())
    desk.change_options(dataclasses.replace(desk.options, trust_refused_connections=False))
    Doors(desk).try_at(closed(desk))
    assert taken(desk) == []
