"""Which of two descriptions of the group is the newer one, and what role it gives."""

from dataclasses import replace

from epochmq.broker.membership.broker_identity import Known
from epochmq.broker.membership.controller_requests import GroupDescription
from epochmq.broker.membership.membership_effects import BecomeFollower, BecomeMaster, Switch


def is_old(view: GroupDescription, present: GroupDescription, known: Known) -> bool:
    """Whether `view` tells of the past: an epoch, or a controller's term, that is over.

    What was acted on before a restart counts too. A wiped controller counts its
    terms anew; it is heeded as soon as it names a higher epoch.
    """
    if view.epoch < max(present.epoch, known.master_epoch):
        return True
    if present.master_id is None and view.epoch == present.epoch:
        if view.set_epoch < present.set_epoch:
            return True  # of before that master's process ended
    return view.epoch == known.master_epoch and 0 < view.term < known.controller_term


def merge(present: GroupDescription, view: GroupDescription) -> GroupDescription:
    """What is known of one epoch after `view`: only set, addresses and term may change in it."""
    known = present.set_epoch if present.members is not None else present.set_epoch - 1
    newer = view.members is not None and view.set_epoch > known
    return GroupDescription(
        epoch=present.epoch,
        master_id=present.master_id,
        master_address=view.master_address or present.master_address,
        ha_address=view.ha_address or present.ha_address,
        set_epoch=view.set_epoch if newer else present.set_epoch,
        members=view.members if newer else present.members,
        term=max(view.term, present.term),
        unclean_epoch=max(view.unclean_epoch, present.unclean_epoch),
    )


def unelected(view: GroupDescription, broker_id: int | None) -> GroupDescription:
    """`view` without this broker as master: the process before it was elected (S19).

    A broker that is master stays it; it says None.
    """
    if broker_id is None or view.master_id != broker_id:
        return view
    return replace(view, master_id=None)


def role_in(view: GroupDescription, broker_id: int, *, learner: bool) -> Switch | None:
    """What `view` makes of the broker with this id; None while that is open."""
    if view.master_id is None:
        return None
    if view.master_id != broker_id:
        return BecomeFollower(
            view.epoch,
            view.master_id,
            view.master_address,
            view.ha_address,
            learner,
            unclean_epoch=view.unclean_epoch,
        )
    if view.members is None:
        return None
    return BecomeMaster(view.epoch, view.members, view.set_epoch)


def same_role(have: Switch | None, wanted: Switch) -> bool:
    """Whether nothing needs to be switched; a changed set is no change of role."""
    if isinstance(wanted, BecomeMaster):
        return isinstance(have, BecomeMaster) and have.epoch == wanted.epoch
    return have == wanted
