"""docs/gallery.md and its figures, from measured numbers. Plain SVG, no library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from colours import shade_of

INK, BLUE, ORANGE, GREEN, GREY = "#333", "#1f5f99", "#c2571a", "#2e7d4f", "#888"
WIDTH, HEIGHT, TOP, BOTTOM = 720, 300, 48, 52
PANELS = ((62, 340), (430, 700))  # left and right edge of each
TITLES = {"sgbdt": "S-GBDT", "dpboost": "DPBoost", "dpsis": "DP-SIS", "joint-tree": "JointTree",
          "diprime": "DiPriMe forest", "multinomial-forest": "Multinomial random forest",
          "private-ensemble": "Private ensembles", "label-private": "LabelPrivate"}
Place = Callable[[float], float]


def title_of(name: str) -> str:
    """The paper's name for it, and what this variant is for."""
    for start, title in TITLES.items():
        if name.startswith(start):
            rest = name.removeprefix(start).replace("-", " ").replace("forest", "").strip()
            return f"{title}, {rest}" if rest else title
    return name


def logarithmic(low: float, high: float, start: float, stop: float) -> Place:
    span = math.log(high) - math.log(low)
    return lambda value: start + (math.log(value) - math.log(low)) / span * (stop - start)


def linear(low: float, high: float, start: float, stop: float) -> Place:
    return lambda value: start + (value - low) / (high - low) * (stop - start)


def text(x: float, y: float, words: str, *, anchor: str = "middle", colour: str = INK,
         weight: str = "normal") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def line(x1: float, y1: float, x2: float, y2: float, colour: str, extra: str = "") -> str:
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" {extra}/>')


def path(points: list[tuple[float, float]], colour: str, extra: str = "") -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2" {extra}/>'


def frame(panel: tuple[int, int], heading: str, across: Place, ticks: list[float]) -> list[str]:
    left, right = panel
    floor = HEIGHT - BOTTOM
    parts = [text((left + right) / 2, TOP - 24, heading, weight="bold"),
             line(left, floor, right, floor, INK), line(left, TOP, left, floor, INK),
             text((left + right) / 2, HEIGHT - 14, "epsilon asked for")]
    for value in ticks:
        parts += [line(across(value), floor, across(value), floor + 4, INK),
                  text(across(value), floor + 18, f"{value:g}")]
    return parts


def heights(panel: tuple[int, int], up: Place, ticks: list[float]) -> list[str]:
    left, right = panel
    return [part for value in ticks for part in (
        line(left, up(value), right, up(value), "#e4e4e4"),
        text(left - 6, up(value) + 4, f"{value:g}", anchor="end"))]


def score_panel(name: str, entry: dict[str, Any]) -> list[str]:
    """Mean and standard deviation of the score at each epsilon, between two dashed lines."""
    points, panel, own = entry["points"], PANELS[0], shade_of(name).line
    epsilons = [one["epsilon"] for one in points]
    across = logarithmic(epsilons[0] * 0.8, epsilons[-1] * 1.25, *panel)
    means = [statistics.mean(one["scores"]) for one in points]
    spreads = [statistics.stdev(one["scores"]) for one in points]
    least = min([entry["baseline"], *(m - s for m, s in zip(means, spreads, strict=True))])
    low = math.floor(max(least, -0.5) * 5) / 5  # noise at small epsilon may go far below
    up = linear(low, 1.0 + (1.0 - low) / 10, HEIGHT - BOTTOM, TOP)  # room for a label
    ticks = [round(low + step * 0.2, 1) for step in range(round((1.0 - low) / 0.2) + 1)]
    parts = heights(panel, up, ticks) + frame(panel, entry["measure"], across, epsilons)
    for value, words, colour in ((entry["unprotected"], "no protection", GREEN),
                                 (entry["baseline"], "learns nothing", GREY)):
        parts += [line(panel[0], up(value), panel[1], up(value), colour, 'stroke-dasharray="5 4"'),
                  text(panel[0] + 6, up(value) - 6, words,
                       anchor="start", colour=colour)]
    for value, mean, spread in zip(epsilons, means, spreads, strict=True):
        x, bottom, top = across(value), up(max(mean - spread, low)), up(min(mean + spread, 1.0))
        parts += [line(x, bottom, x, top, own, 'stroke-width="2"'),
                  line(x - 4, bottom, x + 4, bottom, own), line(x - 4, top, x + 4, top, own)]
        if mean >= low:
            parts.append(f'<circle cx="{x:.1f}" cy="{up(mean):.1f}" r="4" fill="{own}"/>')
    parts.append(path([(across(value), up(max(mean, low)))
                       for value, mean in zip(epsilons, means, strict=True)], own))
    return parts


def price_panel(entry: dict[str, Any]) -> list[str]:
    """What the paper's arithmetic says of the same fit, and what is proved and charged."""
    points, panel = entry["points"], PANELS[1]
    epsilons = [one["epsilon"] for one in points]
    across = logarithmic(epsilons[0] * 0.8, epsilons[-1] * 1.25, *panel)
    values = [value for one in points for value in (one["claimed"], one["sound"]) if value]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    up = logarithmic(low, high, HEIGHT - BOTTOM, TOP)
    ticks = [low * 10.0**step for step in range(round(math.log10(high / low)) + 1)]
    parts = heights(panel, up, ticks) + frame(panel, "epsilon of that fit", across, epsilons)
    sound = [(across(one["epsilon"]), up(one["sound"])) for one in points]
    claimed = [(across(one["epsilon"]), up(one["claimed"])) for one in points if one["claimed"]]
    parts += [path(sound, BLUE), *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{BLUE}"/>'
                                   for x, y in sound)]
    parts.append(text(panel[0] + 10, TOP + 14, "● sound: proved, and charged", anchor="start",
                      colour=BLUE))
    if claimed:
        parts += [path(claimed, ORANGE, 'stroke-dasharray="6 4"'),
                  *(f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" '
                    f'fill="{ORANGE}"/>' for x, y in claimed),
                  text(panel[0] + 10, TOP + 30, "■ claimed: the paper's sum", anchor="start",
                       colour=ORANGE)]
    else:
        parts.append(text(panel[0] + 10, TOP + 30, "no published sum", anchor="start", colour=GREY))
    return parts


def figure(name: str, entry: dict[str, Any]) -> str:
    words = f"{title_of(name)} on {entry['data']}: {entry['measure']} and price against epsilon"
    return drawing([f"<title>{escape(words)}</title>",
                    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
                    *score_panel(name, entry), *price_panel(entry)])


def overview(entries: dict[str, dict[str, Any]]) -> str:
    """Mean score of every learner that predicts, classifiers left and regressors right."""
    parts = [f"<title>{escape('Every learner with its defaults: mean score against epsilon')}"
             "</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for panel, measure in zip(PANELS, ("accuracy", "R2"), strict=True):
        # Learners that protect labels only have another kind of epsilon: never in one picture.
        shown = {name: one for name, one in entries.items()
                 if one["measure"] == measure and one["relation"] != "replace_label"}
        if not shown:
            continue
        first = next(iter(shown.values()))
        epsilons = [one["epsilon"] for one in first["points"]]
        across = logarithmic(epsilons[0] * 0.8, epsilons[-1] * 1.25, *panel)
        low = math.floor(first["baseline"] * 5) / 5
        up = linear(low, 1.0, HEIGHT - BOTTOM, TOP)
        ticks = [round(low + step * 0.2, 1) for step in range(round((1.0 - low) / 0.2) + 1)]
        parts += heights(panel, up, ticks)
        parts += frame(panel, f"{measure} on {first['data']}", across, epsilons)
        best = up(first["unprotected"])
        parts += [line(panel[0], best, panel[1], best, GREY, 'stroke-dasharray="5 4"')]
        # The legend stands where curves do not: low for classes, high for numbers.
        base = HEIGHT - BOTTOM - 14 * len(shown) + 4 if measure == "accuracy" else TOP + 14
        for place, (name, entry) in enumerate(shown.items()):
            colour = shade_of(name).line
            points = [(across(one["epsilon"]), up(max(statistics.mean(one["scores"]), low)))
                      for one in entry["points"]]
            dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
            parts += [path(points, colour), *dots,
                      text(panel[1] - 4, base + 14 * place, "● " + title_of(name).split(",")[0],
                           anchor="end", colour=colour)]
        parts.append(text(panel[0] + 6, best - 5, "no protection", anchor="start", colour=GREY))
    return drawing(parts)


def drawing(parts: list[str]) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" font-family="sans-serif" font-size="12">',
        *parts, "</svg>", ""])


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def section(name: str, entry: dict[str, Any]) -> str:
    rows = [f"| {one['epsilon']:g} | {statistics.mean(one['scores']):.3f} ± "
            f"{statistics.stdev(one['scores']):.3f} | {number(one['claimed'])} | "
            f"{number(one['sound'])} |" for one in entry["points"]]
    note = " **LABELS ONLY.**" if entry["relation"] == "replace_label" else ""
    delta = f"delta {entry['delta']:g}" if entry["delta"] else "pure (delta 0)"
    return "\n".join([
        f"## {title_of(name)}", "",
        f"`{name}`: {entry['summary']}.{note}", "",
        f"![{title_of(name)}: {entry['measure']} and price against epsilon]"
        f"(figures/gallery-{name}.svg)", "",
        f"{entry['data']}, {entry['rows']:,} rows to learn from, `{entry['relation']}`, {delta}. "
        f"Learns nothing: {entry['baseline']:.3f}; no protection: {entry['unprotected']:.3f}.", "",
        f"| epsilon | {entry['measure']}, mean ± sd | claimed | sound |", "|---|---|---|---|",
        *rows, ""])


HEAD = """# Gallery

Every installed learner with its defaults: what it learns, and what that costs. Written by

```text
OMP_NUM_THREADS=1 python tests/bench/gallery.py --data DIR
```

Machine: {machine}.

- **Left**: the score on rows that were held out, for five epsilons; dot and bar are mean and
  standard deviation of {runs} fits, each with its own noise and its own random quarter of rows
  held out. Selection of features has no held-out rows: it is compared with what LASSO finds
  without protection. Green: gradient boosting without privacy. Grey: a guess that looks at no
  feature.
- **Right**: the price of the same fit. *Sound* is proved and is what the ledger charges, so it lies
  on the diagonal, or below where a learner cannot use all it may. *Claimed* is what the paper's own
  arithmetic says of the same noise, where it says anything about the whole fit. Below the blue
  line it promises too much, above it too little. S-GBDT's is flat on the left
  because the printed formula cannot go below log(1/delta) over the largest order tried, 200,
  however strong the noise. See [claimed and sound](concepts.md#claimed-and-sound).

![Mean score of every learner against epsilon](figures/learners.svg)

Few repetitions make a bar uncertain by about half its length. Nothing was tuned. Larger
tables and more repetitions: [benchmarks](benchmarks.md).
"""


def write(kept: dict[str, Any], docs: Path) -> None:
    """All figures and the page."""
    entries = dict(sorted(kept.items()))
    for name, entry in entries.items():
        (docs / "figures" / f"gallery-{name}.svg").write_text(figure(name, entry), encoding="utf-8")
    (docs / "figures" / "learners.svg").write_text(overview(entries), encoding="utf-8")
    machines = "; ".join(sorted({entry["machine"] for entry in entries.values()}))
    runs = max(len(one["scores"]) for entry in entries.values() for one in entry["points"])
    head = HEAD.format(machine=machines, runs=runs)
    sections = [section(name, entry) for name, entry in entries.items()]
    page = "\n".join([head, *sections]).rstrip() + "\n"
    (docs / "gallery.md").write_text(page, encoding="utf-8")
