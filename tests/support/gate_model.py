"""What gates do, in a few lines: the model that the real SQL is compared with."""

import msgspec

from asyncjobs.model.workflow import When

FINAL = frozenset({"completed", "dead", "cancelled"})


class ModelMember(msgspec.Struct):
    """One member. `waits`: for which members, all of each, by which rule; empty sets of members do not occur."""

    waits: list[tuple[frozenset[int], When]]
    status: str = "pending"  # pending, processing, or an end; what waits is derived
    released: set[int] = msgspec.field(default_factory=set)  # of `waits`, those whose gate has released it
    broken: bool = False  # its end is its gate's


class GateModel:
    """A workflow. After each deed `settle` says what follows from it: what a gate released stays so, all else is derived anew."""

    def __init__(self, waits: list[list[tuple[frozenset[int], When]]]) -> None:
        self.members = [ModelMember(one, status="blocked" if one else "pending") for one in waits]
        self.cancelling = False

    def settle(self) -> None:
        """Members wait for earlier ones only, so one pass in their order is enough."""
        for member in self.members:
            said = [self._says(at, member) for at in range(len(member.waits))]
            member.released |= {at for at, one in enumerate(said) if one == "released"}
            if member.status == "blocked" and ("broken" in said or (self.cancelling and "released" in said)):
                member.status, member.broken = "cancelled", True
            elif member.status == "cancelled" and member.broken and "broken" not in said and not self.cancelling:
                member.status, member.broken = "blocked", False
            if member.status == "blocked" and all(one == "released" for one in said):
                member.status = "pending"

    def open_of(self, member: ModelMember) -> set[int]:
        """Of the gates that released it those that none misses now: what it waits for no more when it is retried itself."""
        return {at for at in member.released if {self.members[one].status for one in member.waits[at][0]} <= FINAL}

    def _says(self, at: int, member: ModelMember) -> str:
        if at in member.released:
            return "released"
        upstream, rule = member.waits[at]
        statuses = {self.members[one].status for one in upstream}
        if not statuses <= FINAL:
            return "waiting"
        return "released" if rule == "ended" or statuses == {"completed"} else "broken"

    def is_barred(self, member: ModelMember) -> bool:
        """Whether what it waits for has not completed, and has to: then it is not retried itself."""
        return "broken" in [self._says(at, member) for at in range(len(member.waits))]

    @property
    def has_ended(self) -> bool:
        return all(member.status in FINAL for member in self.members)
