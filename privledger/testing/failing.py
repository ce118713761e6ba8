"""What a failed check raises."""

from __future__ import annotations

from typing import NoReturn


class LearnerCheckFailed(AssertionError):
    """A learner breaks a rule; `check` is the rule's stable id."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"{check}: {message}")
        self.check = check

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.check, str(self).removeprefix(f"{self.check}: "))


def fail(check: str, message: str) -> NoReturn:
    """Raise `LearnerCheckFailed` for the rule `check`."""
    raise LearnerCheckFailed(check, message)
