"""P5: every Poisson sample is one coin per record of its own, at the node's rate."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from privledger.graph import Context
from privledger.testing.lockstep.kept import Broken, Coins, Release, Run


def samples_of(one: Release) -> list[Context]:
    """The Poisson contexts above a release, outermost first."""
    chain = one.charged[0][0] if one.charged else ()
    return [step for step in chain if step.kind == "poisson"]


@define(eq=False)
class Samples:
    """Which coins each sample of a run was drawn by.

    Attributes:
        broken: what is wrong with them.
    """

    run: Run
    broken: list[Broken] = field(factory=list)
    _coins: dict[tuple[int, str], Coins] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for place, one in enumerate(self.run.releases):
            self.broken += self._drawn(place, one)

    def _drawn(self, place: int, one: Release) -> Iterator[Broken]:
        coins = [draw for draw in one.draws if isinstance(draw, Coins)]
        fresh = [step for step in samples_of(one) if (one.grant, step.token) not in self._coins]
        if one.failed:
            return
        if len(coins) != len(fresh):
            yield Broken("P5", place, "a sample was not drawn by coins of its own")
            return
        for step, drawn in zip(fresh, coins, strict=True):
            self._coins[one.grant, step.token] = drawn
            if not drawn.rate <= step.rate:
                yield Broken("P5", place, "a sample is drawn at a larger rate than its node says")
            if len(drawn.result) != self.run.n_people:
                yield Broken("P5", place, "a sample is not one coin for each record or person")

    def inside(self, one: Release) -> bool:
        """Whether the last record is in every sample of a release."""
        found = [self._coins.get((one.grant, step.token)) for step in samples_of(one)]
        return all(drawn is None or bool(drawn.result[-1:].all()) for drawn in found)
