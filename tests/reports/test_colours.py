"""A learner has one colour, and every colour can be read on its paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import privledger as pl
from privledger.reports.page.marks import SHADES, hue_of, shade_of

ROOT = Path(__file__).parents[2]
TOGETHER = ("auto", "diprime-forest", "dpboost", "dpsis", "joint-tree", "label-private",
            "multinomial-forest", "private-ensemble", "sgbdt")
"""What the pictures of the documents put side by side."""


def light(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4
                        for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("shade", SHADES)
def test_words_can_be_read_on_it_and_in_it(shade):
    assert contrast(shade.line, "#ffffff") >= 4.5
    assert contrast(shade.light, "#1b2430") >= 4.5
    assert contrast(shade.dark, "#e7eaee") >= 4.5


def test_what_stands_together_differs_and_kinds_of_one_method_do_not():
    assert len({hue_of(name) for name in TOGETHER}) == len(TOGETHER)
    assert {name.removesuffix("-classifier").removesuffix("-regressor")
            for name in pl.plugins.learner_names()} >= set(TOGETHER)
    for name in TOGETHER:
        assert hue_of(name) == hue_of(f"{name}-classifier") == hue_of(f"{name}-regressor")


@pytest.mark.parametrize("picture", ["learners", "which-learner"])
def test_the_documents_pictures_use_the_same_colours(picture):
    text = (ROOT / "docs" / "figures" / f"{picture}.svg").read_text()
    found = {name: colour for colour, name in
                 re.findall(r'fill="(#[0-9a-f]{6})"[^>]*>● ([^<]+)<', text)}
    assert found, "no legend"
    named = {"S-GBDT": "sgbdt", "DPBoost": "dpboost", "JointTree": "joint-tree", "Auto": "auto"}
    checked = [name for name in named if name in found]
    assert len(checked) >= 3
    for name in checked:
        assert found[name] == shade_of(named[name]).line
