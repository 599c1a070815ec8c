"""Policies: reading them, and the decision, compared with a plain restatement of RIP-68."""

import ipaddress
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import choose

from epochmq.auth.policies import (
    Action,
    BadPolicy,
    Decision,
    Need,
    Pattern,
    PolicyEntry,
    PolicyType,
    Resource,
    ResourceType,
    decide,
    merged,
    parse_actions,
    parse_decision,
    parse_policy_type,
    parse_resource,
    parse_source_ips,
    without,
)
from epochmq.base import limits

PUB = frozenset({Action.PUB})


def entry(
    resource: str, decision: str = "Allow", actions: str = "Pub", *sources: str
) -> PolicyEntry:
    return PolicyEntry(
        parse_resource(resource),
        parse_actions(actions.split(",")),
        parse_source_ips(sources),
        parse_decision(decision),
    )


def allowed(*entries: PolicyEntry, topic: str = "orders", source: str = "10.0.0.7") -> bool:
    policies = {PolicyType.CUSTOM: tuple(entries)}
    return decide(policies, Need(ResourceType.TOPIC, topic, PUB), source)


# Reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("*", Resource(ResourceType.ANY, Pattern.ANY)),
        ("topic:*", Resource(ResourceType.TOPIC, Pattern.ANY)),
        ("Group:g1", Resource(ResourceType.GROUP, Pattern.LITERAL, "g1")),
        ("CLUSTER:Def*", Resource(ResourceType.CLUSTER, Pattern.PREFIXED, "Def")),
        ("Topic:a*b*", Resource(ResourceType.TOPIC, Pattern.PREFIXED, "a")),
        ("Topic:%RETRY%g", Resource(ResourceType.GROUP, Pattern.LITERAL, "g")),
        ("Topic:%DLQ%g*", Resource(ResourceType.GROUP, Pattern.PREFIXED, "g")),
    ],
)
def test_resources(text: str, found: Resource) -> None:
    assert parse_resource(text) == found


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", ":x", "Queue:x", "Topic:" + "x" * 300])
def test_unreadable_resources(text: str) -> None:
    with pytest.raises(BadPolicy):
        parse_resource(text)


def test_other_parts() -> None:
    assert parse_actions(["pub", " SUB "]) == {Action.PUB, Action.SUB}
    assert parse_policy_type(None) is PolicyType.CUSTOM
    assert parse_policy_type("default") is PolicyType.DEFAULT
    assert parse_source_ips(["10.0.0.0/8", " ::1 ", ""]) == ("10.0.0.0/8", "::1")
    wrong = [
        (parse_actions, []), (parse_actions, ["any"]), (parse_decision, None),
        (parse_decision, "maybe"), (parse_source_ips, ["10.0.0.0/99"]),
        (parse_source_ips, ["host"]), (parse_source_ips, ["::1"] * 65),
    ]  # fmt: skip
    for parse, value in wrong:
        with pytest.raises(BadPolicy):
            parse(value)


@pytest.mark.parametrize("text", ["*", "Topic:*", "Group:g", "Cluster:Def*"])
def test_a_resource_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_resource(text)) == text


def test_an_entry_replaces_the_one_of_its_resource() -> None:
    policies = merged({}, PolicyType.CUSTOM, [entry("Topic:a"), entry("Topic:b")])
    policies = merged(policies, PolicyType.CUSTOM, [entry("Topic:a", "Deny")])
    assert [e.decision for e in policies[PolicyType.CUSTOM]] == [Decision.DENY, Decision.ALLOW]
    policies = without(policies, PolicyType.CUSTOM, parse_resource("Topic:a"))
    assert policies == {PolicyType.CUSTOM: (entry("Topic:b"),)}
    assert without(policies, PolicyType.CUSTOM, parse_resource("Topic:b")) == {}


def test_too_many_entries_are_refused() -> None:
    many = [entry(f"Topic:t{number}") for number in range(limits.POLICY_ENTRIES_MAX + 1)]
    with pytest.raises(BadPolicy, match="at most"):
        merged({}, PolicyType.CUSTOM, many)


# Deciding ------------------------------------------------------------------------------------


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not allowed()
    assert not allowed(
        entry("Topic:payments"), entry("Group:orders"), entry("Topic:*", "Allow", "Sub")
    )


def test_the_closer_resource_decides() -> None:
    """The order of RocketMQ 5.3 was wrong here (rocketmq#9539, #9784)."""
    closest_first = ["Topic:orders", "Topic:ord*", "Topic:o*", "Topic:*", "*"]
    for near, far in [(a, b) for i, a in enumerate(closest_first) for b in closest_first[i + 1 :]]:
        for order in ((near, far), (far, near)):
            assert not allowed(*(entry(r, "Deny" if r == near else "Allow") for r in order))
            assert allowed(*(entry(r, "Allow" if r == near else "Deny") for r in order))


def test_deny_wins_among_equals() -> None:
    both = [entry("Topic:orders", "Allow"), entry("Topic:orders", "Deny")]
    assert not allowed(*both)
    assert not allowed(*reversed(both))


def test_default_entries_count_only_without_a_custom_one() -> None:
    need = Need(ResourceType.TOPIC, "orders", PUB)
    default = {PolicyType.DEFAULT: (entry("Topic:orders", "Deny"),)}
    assert not decide(default, need, "10.0.0.1")
    assert decide({**default, PolicyType.CUSTOM: (entry("*"),)}, need, "10.0.0.1")


@pytest.mark.parametrize(
    ("source", "answer"),
    [("10.1.2.3", True), ("11.0.0.1", False), ("::1", True), ("192.0.2.1", True), ("host", False)],
)
def test_source_addresses(source: str, answer: bool) -> None:
    rule = entry("Topic:orders", "Allow", "Pub", "10.0.0.0/8", "::1", "192.0.2.1")
    assert allowed(rule, source=source) is answer


def test_a_need_without_actions_is_for_super_users() -> None:
    everything = {PolicyType.CUSTOM: (entry("*", "Allow", "All"),)}
    assert not decide(everything, Need(ResourceType.CLUSTER, "c", frozenset()), "10.0.0.1")


NAMES = ["a", "ab", "abc", "b", "bc"]
TEXTS = [
    "*",
    *(f"{kind}:{name}{star}" for kind, name, star in product(["Topic", "Group"], NAMES, ["", "*"])),
    "Topic:*",
    "Group:*",
]
ENTRIES = st.builds(
    entry,
    st.sampled_from(TEXTS),
    st.sampled_from(["Allow", "Deny"]),
    st.sampled_from(["Pub", "Sub", "Pub,Sub", "All", "Get"]),
).flatmap(
    lambda e: st.sampled_from([(), ("10.0.0.0/8",), ("192.0.2.1",)]).map(
        lambda sources: PolicyEntry(e.resource, e.actions, sources, e.decision)
    )
)
POLICIES = st.dictionaries(
    st.sampled_from(list(PolicyType)), st.lists(ENTRIES, max_size=6).map(tuple)
)
NEEDS = st.builds(
    Need,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(NAMES),
    st.sampled_from([PUB, frozenset({Action.SUB}), frozenset({Action.SUB, Action.GET})]),
)


def specified(policies: dict[PolicyType, tuple[PolicyEntry, ...]], need: Need, ip: str) -> bool:
    """The decision, as plainly as it can be said: a list of classes, from closest to widest."""
    for kind in ("Custom", "Default"):
        classes: list[list[PolicyEntry]] = [[] for _ in range(len(need.name) + 4)]
        for rule in policies.get(PolicyType(kind), ()):
            if "All" not in rule.actions and not (set(need.actions) & set(rule.actions)):
                continue
            if rule.source_ips and not any(
                ipaddress.ip_address(ip) in ipaddress.ip_network(source)
                for source in rule.source_ips
            ):
                continue
            text = str(rule.resource)
            if text == "*":
                classes[len(need.name) + 3].append(rule)
            elif text == f"{need.type}:*":
                classes[len(need.name) + 2].append(rule)
            elif text == f"{need.type}:{need.name}":
                classes[0].append(rule)
            elif text.startswith(f"{need.type}:") and text.endswith("*"):
                prefix = text.removeprefix(f"{need.type}:")[:-1]
                if need.name.startswith(prefix):
                    classes[1 + len(need.name) - len(prefix)].append(rule)
        for rules in classes:
            if rules:
                return all(rule.decision is Decision.ALLOW for rule in rules)
    return False


@settings(max_examples=choose(2_000, 100_000))
@given(POLICIES, NEEDS, st.sampled_from(["10.1.1.1", "192.0.2.1", "198.51.100.1"]))
def test_the_decision_is_the_specified_one(
    policies: dict[PolicyType, tuple[PolicyEntry, ...]], need: Need, ip: str
) -> None:
    assert decide(policies, need, ip) is specified(policies, need, ip)
    reordered = {kind: tuple(reversed(entries)) for kind, entries in policies.items()}
    assert decide(reordered, need, ip) is specified(policies, need, ip)
