"""Which runs of other libraries a policy allows: `opacus`, `opacus>=1.5`, `opacus==1.5.2`."""

from __future__ import annotations

import re

from privledger.errors import InvalidPlan

_RULE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)(?:(>=|==)(\d{1,9}(?:\.\d{1,9}){0,5}))?")
_VERSION = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.post\d+)?(?:\+[A-Za-z0-9.]+)?")


def check_rule(rule: str) -> str:
    """The rule itself.

    Raises:
        InvalidPlan: not a library, or one with >= or == and a version in numbers.
    """
    if not _RULE.fullmatch(rule):
        raise InvalidPlan("policy foreign", rule, "a library, alone or with >= or == and a version "
                                                  "in numbers: opacus>=1.5")
    return rule


def admits(rules: tuple[str, ...], library: str, version: str) -> bool:
    """Whether one of the rules is about this library and its version.

    A version that is not made of numbers, as a release before 1.5 may be called, is at least none.
    """
    for rule in rules:
        found = _RULE.fullmatch(rule)
        if found is None or found[1] != library:
            continue
        if found[2] is None:
            return True
        told = _VERSION.fullmatch(version)
        if told is not None:
            have, want = _numbers(told[1]), _numbers(found[3])
            if have == want or (found[2] == ">=" and have > want):
                return True
    return False


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in (*text.split("."), *["0"] * 6)[:6])
