"""Ablation: disables safeguards one by one; each must be detected within 300 seeds (INV-92)."""

from dataclasses import dataclass, replace

from sim.kernel.plan import Outcome, Plan
from sim.tools.campaign import Summary
from sim.tools.shrink import shrink
from sim.tools.worlds import run

WITHIN = 300
CLEAN = 150


@dataclass(frozen=True)
class Ablation:
    """Where a safeguard is looked for, and the seed that found it missing."""

    switch: str
    world: str
    scenario: str = ""
    seed: int | None = None
    """The first seed that is caught; kept, so that the tests need one history."""
    rules: tuple[str, ...] = ()
    """The rules that may break; empty: any."""

    def plan(self, seed: int, off: bool = True) -> Plan:
        return Plan(self.world, seed, (self.switch,) if off else (), None, self.scenario)


RAFT = tuple(
    Ablation(switch, "raft", "", seed, (rule,))
    for switch, seed, rule in (
        ("one_vote_a_term", 3, "INV-05"),
        ("log_freshness_check", 1, "INV-03"),
        ("persist_before_reply", 2, "INV-05"),
        ("sync_before_vote", 28, "INV-05"),
        ("sync_before_append_ack", 5, "INV-05"),
        ("commit_only_own_term", 16, "INV-03"),
        ("pre_vote", 6, "INV-35"),
        ("check_quorum", 6, "INV-35"),
        ("read_index_barrier", 5, "INV-04"),
    )
)

_LOSS = ("INV-12", "INV-13", "INV-20", "INV-25")
GROUP: tuple[Ablation, ...] = (
    Ablation("epoch_check_on_append", "group", "S20", 21, _LOSS),
    Ablation("union_acks_while_set_changes", "group", "S01", 0, _LOSS),
    Ablation("bounded_ack", "group", "S08", 0, _LOSS),
    Ablation("follower_syncs_before_ack", "group", "", 8, ("INV-25",)),
    Ablation("durable_truncation_first", "group", "S05", 12, _LOSS),
    Ablation("epoch_entry_before_data", "group", "S06", 0, ("INV-14", "INV-35", *_LOSS)),
    Ablation("crc_on_scan", "group", "S11", 0, ("INV-16", *_LOSS)),
    Ablation("unclean_not_eligible", "group", "S10", 1, _LOSS),
    Ablation("read_limit_is_confirmed", "group", "S04", 0, ("INV-11", "INV-23")),
    Ablation("queue_offsets_from_whole_log", "group", "S04", 0, ("INV-17", "INV-22")),
    Ablation("deadline_recheck_after_pause", "group", "S28", 0, ("INV-25",)),
    Ablation("whole_set_past_lease", "group", "S26", 0, _LOSS),
    Ablation("silence_decides_nothing", "group", "S48", 0, _LOSS),
    Ablation("new_links_begin_again", "group", "S49", 0, _LOSS),
    Ablation("route_picks_highest_epoch", "group", "S16", 0, ("INV-34",)),
)
LATER: tuple[Ablation, ...] = (
    Ablation("outlet_advances_after_ack", "secondary", "", 44, ("INV-26", "INV-27", "INV-28")),
    Ablation("put_once", "secondary", "", 19, ("INV-26", "INV-27")),
    Ablation("pop_progress_waits", "secondary", "", 0, ("INV-28",)),
    Ablation("pop_offset_waits", "secondary", "", 3, ("INV-28",)),
    Ablation("pop_windows_in_order", "popping", "", 3, ("INV-28",)),
    Ablation("pop_copies_know", "group", "S13", 3, ("INV-28",)),
    Ablation("pop_time_is_monotonic", "group", "S13", 1, ("INV-28",)),
    Ablation("pop_drops_with_its_topic", "group", "S34", 3, ("INV-28",)),
    Ablation("pop_knows_what_is_gone", "group", "S34", 0, ("INV-27",)),
    Ablation("timer_tries_again", "group", "S12", 4, ("INV-27",)),
    Ablation("order_one_batch_out", "popping", "", 0, ("INV-28",)),
    Ablation("order_leaves_out_acked", "popping", "", 2, ("INV-28",)),
    Ablation("order_known_first", "popping", "", 0, ("INV-28",)),
    Ablation("order_acks_of_its_batch", "popping", "", 1, ("INV-28",)),
    Ablation("order_settles_first", "popping", "", 1, ("INV-28",)),
    Ablation("order_told_by_who_leads", "group", "S51", 0, ("INV-28",)),
    Ablation("pop_acks_are_kept", "popping", "", 1, ("INV-28",)),
    Ablation("transaction_progress_is_read_back", "popping", "", 1, ("INV-26",)),
    Ablation("transaction_asks_the_log", "popping", "", 3, ("INV-26",)),
)
"""Of what is moved on later: the switches of `sim/kernel/mutants.py`."""
PLAIN: tuple[Ablation, ...] = (
    Ablation("lock_quorum", "locks", "", 3, ("INV-31",)),
    Ablation("pre_online_version_check", "acting", "", 17, ("INV-29", "INV-33")),
    Ablation("escape_advances_after_ack", "acting", "S31", 1, ("INV-27",)),
    Ablation("slaves_copy_offsets", "acting", "", 17, ("INV-29",)),
    Ablation("ended_are_handed_over", "acting", "", 3810, ("INV-26",)),
    Ablation("sends_wait_for_copies", "hard", "", 75, ("INV-20",)),
)
"""Of groups without controllers."""
ABLATIONS: tuple[Ablation, ...] = (*RAFT, *GROUP, *LATER, *PLAIN)


def caught(ablation: Ablation, outcome: Outcome) -> bool:
    violation = outcome.violation
    return violation is not None and (not ablation.rules or violation.rule in ablation.rules)


def hunt(ablation: Ablation, within: int = WITHIN) -> Outcome | None:
    """Return the first history in which the disabled safeguard is detected; None when none is."""
    for seed in range(within):
        outcome = run(ablation.plan(seed))
        if caught(ablation, outcome):
            return outcome
    return None


def clean(ablation: Ablation, number: int = CLEAN) -> Summary:
    """Play the same histories with all safeguards."""
    summary = Summary()
    for seed in range(number):
        summary.add(run(ablation.plan(seed, off=False)))
    return summary


def ablate(switches: tuple[str, ...] | None, within: int) -> int:
    """Test each switch and print a line for it; returns how many were not detected."""
    missed = 0
    for ablation in ABLATIONS:
        if switches and ablation.switch not in switches:
            continue
        found = hunt(ablation, within)
        place = ablation.scenario or ablation.world
        if found is None:
            missed += 1
            print(f"{ablation.switch} ({place}): NOT CAUGHT within {within} seeds", flush=True)
            continue
        small = shrink(replace(found), run) if not ablation.scenario else found
        print(
            f"{ablation.switch} ({place}): seed {found.plan.seed}: {small.violation}\n"
            f"    {small.plan.command()}",
            flush=True,
        )
    return missed
