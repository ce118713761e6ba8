"""Every colour can be read on its ground: on the page, and in the documents' pictures."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

import privledger as pl
from tests.bench.colours import SHADES, hue_of, shade_of

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


CSS = (files("privledger.reports") / "templates" / "report.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})[;}]", part))
               for part in CSS.partition("*{")[0].split("@media screen"))
WRITTEN = [("ink", "card"), ("ink", "paper"), ("soft", "card"), ("soft", "paper"),
           ("soft", "track"), ("accent", "card"), ("accent", "paper"), ("ok", "okbg"),
           ("todo", "todobg"), ("bad", "badbg"), ("card", "bad"), ("sec", "secbg"),
           ("ink", "badbg"),
           *(("ink", f"h{place}") for place in range(6))]
DRAWN = [*((f"{tone}bar", "track") for tone in ("ok", "todo", "bad")), ("edge", "card"),
         ("bad", "track"), *((f"d{place}", "card") for place in range(6))]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_pages_words_have_contrast_4_and_a_half_and_its_marks_3(theme):
    shade = {name: f"#{''.join(2 * one for one in text[1:])}" if len(text) == 4 else text
             for name, text in theme.items()}
    assert [pair for pair in WRITTEN if contrast(shade[pair[0]], shade[pair[1]]) < 4.5] == []
    assert [pair for pair in DRAWN if contrast(shade[pair[0]], shade[pair[1]]) < 3.0] == []


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
