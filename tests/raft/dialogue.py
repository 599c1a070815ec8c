"""Golden dialogues: commands to a group of nodes, and word for word what follows from each.

A file is a row of blocks: a line `> command`, then what it printed; `#` begins a comment. To
rewrite the answers after an intended change: EPOCHMQ_REWRITE=1 pytest tests/raft/test_dialogues.py
and read the difference.

    nodes n0 n1 n2 [learners n3]    a group; the timeout of n0 ends first
    small                           the same group again, with one entry a message
    run MS                          time passes, everything arrives; prints all but messages
    wait MS                         time passes, nothing moves
    tick n0                         its clock rings
    deliver [n0->n1] [Kind] [all]   the oldest such message arrives, or all there are now
    drop [n0->n1] [Kind]            all such messages are lost
    late [n0->n1] [Kind]            the oldest such message is overtaken by all others
    repeat [n0->n1] [Kind]          the oldest such message is doubled, at the end
    cut n0 n1 | cut n0->n1 | isolate n0 | heal
    propose n0 text | read n0 NUMBER | transfer n0 n1 | compact n0
    change n0 add-voter|add-learner|remove n3
    join n3 | crash n0 | start n0 | sync n0 | autosync on|off
    state [n0 ...] | log n0 | pending
"""

from collections.abc import Callable
from dataclasses import replace

from tests.raft.cluster import Cluster

from epochmq.base.errors import EpochError
from epochmq.raft.membership import ChangeKind
from epochmq.raft.raft_messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    EntryKind,
    Heartbeat,
    HeartbeatReply,
    Install,
    LogEntry,
    Vote,
    VoteReply,
    VotersAndLearners,
    decode,
    decode_members,
)
from epochmq.raft.raft_node import (
    Apply,
    BecameLeader,
    Effect,
    LostLeadership,
    MembersChanged,
    ReadFailed,
    ReadReady,
    Restore,
)


def members_text(members: VotersAndLearners) -> str:
    learners = f" learners {' '.join(members.learners)}" if members.learners else ""
    return " ".join(members.voters) + learners


def entry_text(entry: LogEntry) -> str:
    place = f"{entry.index}@{entry.term}"
    if entry.kind is EntryKind.CHANGE:
        return f"{place} members({members_text(decode_members(entry.data))})"
    return f"{place} no-op" if entry.kind is EntryKind.NO_OP else f"{place} {entry.data.decode()}"


def _vote(m: Vote) -> str:
    how = " pre" * m.pre + " transfer" * m.transfer
    return f"log ends {m.last_index}@{m.last_term}{how}"


def _append_reply(m: AppendReply) -> str:
    hint = f", maybe {m.hint_index}@{m.hint_term}"
    return f"refused after {m.index}{hint}" if m.refused else f"has {m.index}"


def _append(m: AppendEntries) -> str:
    entries = ", ".join(map(entry_text, m.entries))
    return f"after {m.prev_index}@{m.prev_term} commit {m.commit} [{entries}]"


TEXTS: dict[type, Callable[..., str]] = {
    Vote: _vote,
    VoteReply: lambda m: ("granted" if m.granted else "refused") + " pre" * m.pre,
    AppendEntries: _append,
    AppendReply: _append_reply,
    Heartbeat: lambda m: f"round {m.round} commit {m.commit}",
    HeartbeatReply: lambda m: f"round {m.round}",
    Install: lambda m: f"snapshot {m.snapshot.index}@{m.snapshot.term}",
}


def message_text(message: AnyMessage) -> str:
    text = TEXTS.get(type(message), lambda _message: "")(message)
    way = f"{message.sender}->{message.to}"
    return f"{way} {type(message).__name__} term {message.term} {text}".rstrip()


def effect_text(effect: Effect) -> str:
    match effect:
        case Apply(index, term, data):
            return f"applies {index}@{term} {data.decode()}"
        case Restore(index, snapshot):
            return f"restores {index}: {snapshot.decode()}"
        case ReadReady(token):
            return f"read {token} is ready"
        case ReadFailed(token):
            return f"read {token} failed"
        case BecameLeader(term):
            return f"leads in term {term}"
        case LostLeadership(term):
            return f"leads no more in term {term}"
        case MembersChanged(members):
            return f"members are {members_text(members)}"
    raise AssertionError(effect)


class Dialogue:
    """One group and what was said."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.lines: list[str] = []
        self._told_effects = 0
        self._quiet = False

    def say(self, command: str) -> list[str]:
        """Carry one command out; the lines that it prints."""
        self.lines = []
        verb, *words = command.split()
        try:
            getattr(self, f"do_{verb}")(*words)
        except EpochError as error:
            self.lines.append(f"{type(error).__name__}: {error}")
        self._tell_effects()
        return self.lines or ["ok"]

    def _tell_effects(self) -> None:
        news = self.cluster.effects[self._told_effects :]
        self._told_effects = len(self.cluster.effects)
        self.lines += [f"{name} {effect_text(effect)}" for name, effect in news]

    def _said(self, sender: str, message: AnyMessage) -> None:
        if not self._quiet:
            lost = " (cut)" if (sender, message.to) in self.cluster.cuts else ""
            self.lines.append(message_text(message) + lost)

    # Groups and time --------------------------------------------------------------------------

    def do_nodes(self, *names: str) -> None:
        voters = names[: names.index("learners")] if "learners" in names else names
        self.cluster = Cluster(*voters, learners=names[len(voters) + 1 :])
        self.cluster.on_send = self._said

    def do_small(self) -> None:
        """One entry a message, from the next start on."""
        old = self.cluster
        options = replace(old.options, append_bytes_max=1)
        self.cluster = Cluster(*old.bootstrap.voters, options=options)
        self.cluster.on_send = self._said

    def do_run(self, ms: str) -> None:
        self._quiet = True
        self.cluster.run(int(ms))
        self._quiet = False

    def do_wait(self, ms: str) -> None:
        self.cluster.now += int(ms)

    def do_tick(self, name: str) -> None:
        self.cluster.tick(name)

    def do_autosync(self, word: str) -> None:
        self.cluster.autosync = word == "on"

    def do_sync(self, name: str) -> None:
        if not self.cluster.sync(name):
            self.lines.append("nothing to sync")

    def do_crash(self, name: str) -> None:
        self.cluster.crash(name, seed=1)

    def do_start(self, name: str) -> None:
        self.cluster.start(name)

    def do_join(self, name: str) -> None:
        self.cluster.add(name, joins=True)

    # The network ------------------------------------------------------------------------------

    def _matching(self, words: tuple[str, ...]) -> list[int]:
        found = []
        for at, (sender, send) in enumerate(self.cluster.waiting):
            kind = type(decode(send.data)).__name__
            names = {f"{sender}->{send.node_id}", kind, "all"}
            if all(word in names for word in words):
                found.append(at)
        return found

    def do_deliver(self, *words: str) -> None:
        matching = self._matching(words)
        chosen = matching if "all" in words else matching[:1]
        sends = [self.cluster.waiting[at][1] for at in chosen]
        for at in reversed(chosen):
            del self.cluster.waiting[at]
        if not sends:
            self.lines.append("no such message")
        for send in sends:
            self.cluster.hand_over(send)
            self._tell_effects()

    def do_drop(self, *words: str) -> None:
        for at in reversed(self._matching(words)):
            del self.cluster.waiting[at]

    def do_repeat(self, *words: str) -> None:
        self.cluster.waiting.append(self.cluster.waiting[self._matching(words)[0]])

    def do_late(self, *words: str) -> None:
        waiting = self.cluster.waiting
        waiting.append(waiting.pop(self._matching(words)[0]))

    def do_pending(self) -> None:
        self.lines += [message_text(decode(send.data)) for _sender, send in self.cluster.waiting]
        if not self.lines:
            self.lines.append("nothing is under way")

    def do_cut(self, *words: str) -> None:
        if len(words) == 2:
            self.cluster.cuts |= {(words[0], words[1]), (words[1], words[0])}
        else:
            source, _, target = words[0].partition("->")
            self.cluster.cuts.add((source, target))

    def do_isolate(self, name: str) -> None:
        self.cluster.isolate(name)

    def do_heal(self) -> None:
        self.cluster.heal()

    # Wishes -----------------------------------------------------------------------------------

    def do_propose(self, name: str, text: str) -> None:
        if self.cluster.propose(name, text.encode()) is None:
            self.lines.append("not now, not here")

    def do_read(self, name: str, number: str) -> None:
        self.cluster.nodes[name].read_index(int(number), self.cluster.now)
        self.cluster.collect(name)

    def do_transfer(self, name: str, to: str) -> None:
        if not self.cluster.nodes[name].transfer_to(to):
            self.lines.append("not possible")
        self.cluster.collect(name)

    def do_compact(self, name: str) -> None:
        self.cluster.compact(name)

    def do_change(self, name: str, kind: str, node: str) -> None:
        found = ChangeKind[kind.replace("-", "_").upper()]
        if self.cluster.nodes[name].propose_change(found, node) is None:
            self.lines.append("not now, not here")
        self.cluster.collect(name)

    # Looking ----------------------------------------------------------------------------------

    def do_state(self, *names: str) -> None:
        for name in names or sorted(self.cluster.nodes):
            node = self.cluster.nodes[name]
            core = node.core
            lease = node.lease_until_ms - self.cluster.now
            self.lines.append(
                f"{name} {core.role.value} term {core.term} vote {core.vote or '-'}"
                f" leader {core.leader_id or '-'} last {core.log.last_index}@{core.log.last_term}"
                f" commit {core.log.commit} applied {node.applied_index}"
                + (f" lease {lease} ms" if node.lease_until_ms else "")
            )

    def do_log(self, name: str) -> None:
        log = self.cluster.nodes[name].core.log
        if log.snapshot.index:
            self.lines.append(f"snapshot {log.snapshot.index}@{log.snapshot.term}")
        self.lines += [entry_text(entry) for entry in log.entries]
        if not self.lines:
            self.lines.append("empty")


def play(text: str) -> str:
    """The same dialogue with the answers that are given today."""
    dialogue = Dialogue()
    answered: list[str] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            if not line.strip() and answered and not answered[-1]:
                continue
            answered.append(line.strip())
        elif line.startswith("> "):
            answered.append(line)
            answered += [f"  {said}" for said in dialogue.say(line[2:])]
    return "\n".join(answered).strip() + "\n"
