"""A learner's colour: one function, the same answer in every picture of the documents."""

from __future__ import annotations

import zlib

from attrs import frozen

_KINDS = ("-classifier", "-regressor")
_SALT = "6479"
"""Under it, the learners that stand together in a picture of the documents all differ."""


@frozen
class Shade:
    """One colour, as hexadecimal texts.

    Attributes:
        line: for lines and words on white paper. light, dark: to write on, by day and by night.
    """

    line: str
    light: str
    dark: str


SHADES = (
    Shade("#1f5fa8", "#bcd7f2", "#1f4468"), Shade("#b0530b", "#f9d3a8", "#6b4410"),
    Shade("#2b7a34", "#c3e6c0", "#24552a"), Shade("#c0302c", "#f6c1c0", "#722c2e"),
    Shade("#7442b5", "#dccdf0", "#483370"), Shade("#7a5236", "#e6d5c8", "#54413a"),
    Shade("#b82a86", "#f5cbe4", "#6a2b56"), Shade("#0f7681", "#bfe8ea", "#17535a"),
    Shade("#7d6a00", "#efe6a6", "#56500f"), Shade("#4b5a6b", "#d3dae2", "#3d4854"),
    Shade("#3f48c9", "#ccd0fa", "#363c86"), Shade("#5c7a12", "#dcebb0", "#44560f"))
"""Told apart by most eyes; the words beside them never rest on the colour alone."""


def hue_of(learner: str) -> int:
    """Which of `SHADES` a learner has, from 1: by its name alone, in every ledger and picture.

    One method has one colour, whether it learns classes or numbers.

    >>> hue_of("sgbdt-classifier") == hue_of("sgbdt-regressor") == hue_of("sgbdt")
    True
    """
    family = learner
    for kind in _KINDS:
        family = family.removesuffix(kind)
    text = f"{_SALT} {family}".encode("utf-8", "replace")
    return 1 + zlib.crc32(text) % len(SHADES)


def shade_of(learner: str) -> Shade:
    """The colour itself."""
    return SHADES[hue_of(learner) - 1]
