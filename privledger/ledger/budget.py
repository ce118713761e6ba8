"""The promise a ledger keeps."""

from __future__ import annotations

from attrs import frozen

from privledger.rounding import positive, probability


@frozen
class Budget:
    """A cap in (epsilon, delta): epsilon in nats above zero, delta in [0, 1)."""

    epsilon: float
    delta: float = 0.0

    def __attrs_post_init__(self) -> None:
        positive("Budget epsilon", self.epsilon)
        probability("Budget delta", self.delta, zero=True)
