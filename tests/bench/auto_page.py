"""docs/which-learner.md and its picture, from the lines that auto.py keeps."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from colours import shade_of
from gallery_drawing import (
    BOTTOM,
    HEIGHT,
    PANELS,
    TOP,
    WIDTH,
    drawing,
    frame,
    heights,
    linear,
    logarithmic,
    path,
    text,
)
from measure import table

TITLES = {"auto": "Auto", "sgbdt": "S-GBDT", "linear": "Linear", "start": "S-GBDT, linear start",
          "fourier": "Linear, Fourier",
          "joint-tree": "JointTree",
          "diprime": "DiPriMe",
          "mrf": "MRF", "ensemble": "ensemble", "dpboost": "DPBoost", "auto, pure": "Auto, pure",
          "diprime, pure": "DiPriMe, pure", "mrf, pure": "MRF, pure",
          "dpboost, pure": "DPBoost, pure"}
FAMILIES = {"mrf": "multinomial-forest", "ensemble": "private-ensemble",
            "diprime": "diprime-forest"}
LEAST_GAP = 0.02  # between trivial and not private; below, a share of it says nothing
MARKS = "<!-- made by tests/bench/auto.py -->", "<!-- end -->"
OF_MORE = ("sgbdt", "linear", "start", "auto")


class Mean(NamedTuple):
    """Means over seeds of one learner on one set at one epsilon."""

    score: float
    trivial: float
    best: float
    auc: float | None
    rows: int
    seeds: int

    @property
    def share(self) -> float | None:
        """0 trivial, 1 not private; None where these are too close."""
        gap = self.best - self.trivial
        return (self.score - self.trivial) / gap if gap >= LEAST_GAP else None


Key = tuple[str, float, str]


def lines(kept: Path) -> list[dict[str, Any]]:
    """All fits that are kept, oldest first."""
    if not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines() if line]


def means(fits: Iterable[dict[str, Any]]) -> dict[Key, Mean]:
    """By set, epsilon and learner; seeds without a yardstick are left out."""
    fits = [fit for fit in fits if "score" in fit]
    best = {(fit["set"], fit["seed"]): fit["score"] for fit in fits if fit["learner"] == "boosting"}
    held = defaultdict(list)
    for fit in fits:
        if fit["learner"] != "boosting" and (fit["set"], fit["seed"]) in best:
            held[fit["set"], fit["epsilon"], fit["learner"]].append(fit)
    return {key: Mean(
        statistics.mean(fit["score"] for fit in some),
        statistics.mean(fit["trivial"] for fit in some),
        statistics.mean(best[fit["set"], fit["seed"]] for fit in some),
        statistics.mean(fit["auc"] for fit in some) if all("auc" in fit for fit in some) else None,
        some[0]["rows"], len(some)) for key, some in held.items()}


def three(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".replace("0.", ".", 1)


def averages(found: dict[Key, Mean], wanted: Callable[[float], bool]) -> list[list[object]]:
    """Mean normalised score per learner and epsilon over the sets that all learners share."""
    rows: list[list[object]] = []
    epsilons = sorted({key[1] for key in found})
    for name, title in TITLES.items():
        cells: list[object] = [title]
        for epsilon in epsilons:
            shares = [one.share for key, one in found.items()
                      if key[1:] == (epsilon, name) and wanted(one.rows * epsilon)]
            known = [max(share, -1.0) for share in shares if share is not None]
            cells.append(f"{three(statistics.mean(known))} ({len(known)})" if known else "-")
        if any(cell != "-" for cell in cells[1:]):
            rows.append(cells)
    return rows


def evidence(found: dict[Key, Mean], measure: Callable[[Mean], float | None]) -> str:
    """A line for each set and epsilon, small signals first."""
    names = [name for name in TITLES if any(key[2] == name for key in found)]
    first = {(key[0], key[1]): one for key, one in found.items()}
    rows = []
    for (name, epsilon), one in sorted(first.items(), key=lambda item: item[1].rows * item[0][1]):
        cells = [found.get((name, epsilon, learner)) for learner in names]
        values = [None if cell is None else measure(cell) for cell in cells]
        if any(value is not None for value in values):
            rows.append([name, f"{epsilon:g}", f"{one.rows * epsilon:.0f}", three(one.trivial),
                         three(one.best), *map(three, values), one.seeds])
    return table(["set", "epsilon", "rows x epsilon", "trivial", "not private",
                  *(TITLES[name] for name in names), "seeds"], rows)


def skipped(fits: Iterable[dict[str, Any]]) -> str:
    """What was not measured, and why."""
    found = sorted({(fit["set"], TITLES.get(fit["learner"], "boosting"), fit["skipped"])
                    for fit in fits if "skipped" in fit})
    return "\n".join(f"- {name}, {learner}: {why}" for name, learner, why in found) or "nothing"


def picture(found: dict[Key, Mean]) -> str:
    """Mean normalised score against epsilon, classes left and numbers right."""
    words = "Mean normalised score of every learner against epsilon, over all sets"
    parts = [f"<title>{escape(words)}</title>",
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    numbers = {key[0] for key in found if key[0] in ("abalone", "parkinsons_telemonitoring",
                                                     "appliances_energy")}
    for panel, heading, regression in zip(PANELS, ("classes", "a number"), (False, True),
                                          strict=True):
        across = logarithmic(0.25, 3.7, *panel)
        up = linear(0.0, 1.0, HEIGHT - BOTTOM, TOP)
        parts += heights(panel, up, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
        parts += frame(panel, f"normalised score, {heading}", across, [0.3, 1.0, 3.0])
        names = [name for name in TITLES if any(
            key[2] == name and (key[0] in numbers) == regression for key in found)]
        for place, name in enumerate(names):
            points = []
            for epsilon in (0.3, 1.0, 3.0):
                shares = [one.share for key, one in found.items() if key[1:] == (epsilon, name)
                          and (key[0] in numbers) == regression]
                known = [max(share, -1.0) for share in shares if share is not None]
                if known:
                    points.append((across(epsilon), up(max(statistics.mean(known), 0.0))))
            family, _, pure = name.partition(", ")
            colour = shade_of(FAMILIES.get(family, family)).line
            parts += [path(points, colour, 'stroke-dasharray="3 3"' if pure else ""),
                      *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
                        for x, y in points),
                      text(panel[0] + 8, TOP + 14 + 14 * place, "● " + TITLES[name],
                           anchor="start", colour=colour)]
    return drawing(parts)


def body(fits: list[dict[str, Any]]) -> str:
    """What is written between the marks of the page."""
    found = means(fits)
    head = ["learner", *(f"epsilon {epsilon:g}" for epsilon in sorted({key[1] for key in found}))]
    far = [f"{key[0]} at {key[1]:g}: {one.score - one.trivial:+.3f}" for key, one in found.items()
           if key[2] == "auto" and one.score < one.trivial - 0.05]
    return "\n\n".join([
        "Mean normalised score, and over how many sets:", table(head, averages(
            found, lambda signal: True)),
        "Where rows times epsilon are below 200:", table(head, averages(
            found, lambda signal: signal < 200)),
        f"Auto below trivial by more than .05: {'; '.join(far) or 'nowhere'}.",
        "## Every set", "Accuracy, or R2:", evidence(found, lambda one: one.score),
        "Area under the ROC curve, two classes:", evidence(
            {key: one for key, one in found.items() if one.auc is not None},
            lambda one: one.auc),
        f"Not measured:\n\n{skipped(fits)}"])


def of_more(fits: list[dict[str, Any]]) -> str:
    """A line for each set and one for all: mean normalised scores over epsilons and seeds."""
    found = means(fits)
    held: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (name, epsilon, learner), one in found.items():
        if one.share is not None:
            for row, column in ((name, learner), ("all", learner), ("all", f"{epsilon:g}")):
                if learner == "auto" or column == learner:
                    held[row, column].append(max(one.share, -1.0))

    def cells(row: str, columns: Iterable[str]) -> list[str]:
        return [three(statistics.mean(held[row, column])) if held[row, column] else "-"
                for column in columns]

    sets = sorted({key[0] for key in found if (key[0], "auto") in held})
    epsilons = sorted({f"{key[1]:g}" for key in found}, key=float)
    seeds = max((one.seeds for one in found.values()), default=0)
    return "\n\n".join([
        f"Mean over the epsilons, {'one split' if seeds == 1 else f'{seeds} splits'} each:", table(
            ["set", *(TITLES[name] for name in OF_MORE)],
            [[name, *cells(name, OF_MORE)] for name in [*sets, "all"]]),
        "Auto by epsilon, all sets:", table([f"epsilon {one}" for one in epsilons],
                                            [cells("all", epsilons)])])


def write(kept: Path, docs: Path) -> None:
    """The page around what is measured, and its picture."""
    fits, page = lines(kept), docs / "which-learner.md"
    if not fits:
        return
    before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    page.write_text(f"{before}{MARKS[0]}\n\n{body(fits)}\n\n{MARKS[1]}{after}", encoding="utf-8")
    (docs / "figures" / "which-learner.svg").write_text(picture(means(fits)), encoding="utf-8")
