"""Proposals of another sync-state set on their way to the controller (KIP-497).

One is open at a time. It is asked again after a timeout, since a timeout decides nothing, and is
closed by an answer or by a set at least as new as the one it would have made.
"""

from collections.abc import Iterable
from typing import Protocol

from epochmq.broker.membership.membership_effects import Effect, ProposalFailed

AGAIN_MS = 100


class Proposal(Protocol):
    """What is proposed; replication's `SetProposal` fits."""

    @property
    def members(self) -> frozenset[int]: ...

    @property
    def epoch(self) -> int: ...

    @property
    def set_epoch(self) -> int: ...


class Proposals:
    """The open proposal and the numbers of its attempts."""

    def __init__(self) -> None:
        self.open: Proposal | None = None
        self.due_at_ms = 0
        self._attempts: set[int] = set()
        self._asking = False

    def open_proposal(self, proposal: Proposal) -> list[Proposal]:
        """Open another one; the one it replaces."""
        replaced = self.drop()
        self.open = proposal
        self.due_at_ms = 0
        return replaced

    @property
    def next_at_ms(self) -> int | None:
        """When to ask for the open proposal; None while its answer is awaited, or for none."""
        return None if self.open is None or self._asking else self.due_at_ms

    def due(self, now: int) -> Proposal | None:
        """The proposal to ask for now."""
        if self._asking or now < self.due_at_ms:
            return None
        return self.open

    def sent(self, number: int) -> None:
        self._attempts.add(number)
        self._asking = True

    def answered(self, number: int) -> Proposal | None:
        """Close by the answer to attempt `number`; None when it belongs to a closed one."""
        if number not in self._attempts:
            return None
        proposal = self.open
        self.drop()
        return proposal

    @property
    def asked_once(self) -> bool:
        """Whether there was one attempt only, so that its refusal is the last word.

        With several an earlier one may still be on its way, and be carried out later.
        """
        return len(self._attempts) == 1

    def again(self, number: int, now: int) -> None:
        """Attempt `number` has no answer; its late answer would still count."""
        if number in self._attempts:
            self._asking = False
            self.due_at_ms = now + AGAIN_MS

    def set_committed(self, set_epoch: int) -> None:
        """A committed set is known: what would have come before it is history."""
        if self.open is not None and self.open.set_epoch < set_epoch:
            self.drop()

    def drop(self) -> list[Proposal]:
        """Close without a decision; what was open."""
        dropped = [] if self.open is None else [self.open]
        self.open = None
        self._attempts.clear()
        self._asking = False
        return dropped


def failures(proposals: Iterable[Proposal]) -> list[Effect]:
    """Each of these proposals has come to nothing."""
    return [ProposalFailed(proposal) for proposal in proposals]
