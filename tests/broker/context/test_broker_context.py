"""A broker's state hangs together."""

import dataclasses

from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.serving.roles import HELD_MASTER, ROLES, Role


def test_options_are_taken_over_where_they_were_copied() -> None:
    harness = BrokerHarness()
    changed = dataclasses.replace(
        harness.options,
        auto_create_topic_enable=False,
        auto_create_subscription_group=False,
        enable_property_filter=True,
    )
    harness.node.adopt_options(changed)
    assert harness.node.options is changed
    assert not harness.node.topics.auto_create
    assert not harness.node.groups.auto_create
    assert harness.node.filters.enabled


def test_rights_follow_the_role() -> None:
    node = BrokerHarness().node
    assert node.serving.rights is ROLES[Role.MASTER]
    become(node, Role.FENCED)
    assert not node.serving.rights.readable


def test_past_the_lease_the_whole_set_lets_messages_go_on_and_nothing_else() -> None:
    """ADR 0044."""
    harness = BrokerHarness()
    node = harness.node
    node.serving.grant_lease(harness.clock.now)
    assert node.serving.rights is ROLES[Role.FENCED]
    asked: list[int] = []
    node.serving.trust_set(lambda now: not asked.append(now))  # type: ignore[func-returns-value]
    assert node.serving.rights is HELD_MASTER
    assert asked == [harness.clock.now]
    assert not node.serving.delivers
    node.serving.lease_until_ms += 1
    assert node.serving.rights is ROLES[Role.MASTER]


def test_numbers_rise_and_addresses_are_the_advertised_ones() -> None:
    harness = BrokerHarness()
    assert harness.node.next_number() + 1 == harness.node.next_number()
    assert harness.node.address == "127.0.0.1:10911"
    assert harness.node.uniq_ids.next().startswith("7F0000010007")


def test_an_ipv6_address_is_told_in_brackets() -> None:
    """Peers cut `host:port` at a colon, and not all of them at the last one."""
    harness = BrokerHarness()
    for given in ("::1", "[::1]"):
        options = dataclasses.replace(
            harness.options, broker_ip1=given, broker_ip2=given, ha_listen_port=3
        )
        node = BrokerContext(
            options, clock=harness.clock, disk=harness.disk, store=harness.store, port=1
        )
        assert (node.address, node.ha_address) == ("[::1]:1", "[::1]:3")


def test_without_a_loop_what_is_put_off_runs_at_once() -> None:
    harness = BrokerHarness()
    node = BrokerContext(
        harness.options, clock=harness.clock, disk=harness.disk, store=harness.store, port=1
    )
    ran: list[int] = []
    node.ports.soon(lambda: ran.append(1))
    assert ran == [1]
