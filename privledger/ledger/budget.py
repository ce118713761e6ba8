"""The promise a ledger keeps."""

from __future__ import annotations

from attrs import field, frozen

from privledger.rounding import plain_float, positive, probability


@frozen
class Budget:
    """A cap in (epsilon, delta): epsilon in nats above zero, delta in [0, 1)."""

    epsilon: float = field(converter=plain_float)
    delta: float = field(default=0.0, converter=plain_float)

    def __attrs_post_init__(self) -> None:
        positive("Budget epsilon", self.epsilon)
        probability("Budget delta", self.delta, zero=True)
