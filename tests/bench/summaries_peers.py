"""Answers of opendp and diffprivlib to the questions of summaries.py, which runs this under a
Python that has them: JSON in, JSON out. It imports nothing of this project."""

import json
import math
import sys
from importlib.metadata import version

import numpy as np


def of_opendp(table, given, laws):
    """Sums and counts of rows clamped to the bounds; a mean is a sum and a count, half each. What
    one draw of discrete Laplace noise answers has its deviation in `laws`, and is not drawn."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    epsilon = given["epsilon"]

    def least(make, eps):
        return dp.binary_search_chain(make, d_in=1, d_out=eps)

    def law(make):
        wide = dp.binary_search_param(make, d_in=1, d_out=epsilon)
        return 1 / (math.sqrt(2) * math.sinh(0.5 / wide))

    def summed(values, bounds, eps):
        made = least(lambda scale: dp.t.make_clamp(*space, bounds=tuple(bounds))
                     >> dp.t.then_sum() >> dp.m.then_laplace(scale), eps)
        return made(values.tolist())

    laws["count"] = law(lambda scale: dp.t.make_count(*space) >> dp.m.then_laplace(scale))
    laws["sum"] = law(lambda scale: dp.t.make_clamp(*space, bounds=tuple(given["bounds"]["a"]))
                      >> dp.t.then_sum() >> dp.m.then_laplace(scale))
    laws["histogram"] = laws["crosstab"] = law(lambda scale: dp.t.make_count_by_categories(
        *space, categories=[0, 1], null_category=False) >> dp.m.then_laplace(scale))
    half = least(lambda scale: dp.t.make_count(*space) >> dp.m.then_laplace(scale), epsilon / 2)
    low, high = given["bounds"]["b"]
    candidates = np.unique(np.linspace(low, high, 1024).round().astype(int)).tolist()
    ranked = {q: least(lambda scale, q=q: dp.t.make_quantile_score_candidates(
        *space, candidates=candidates, alpha=q) >> dp.m.then_noisy_max(
            dp.max_divergence(), scale=scale, negate=True), epsilon / len(given["ranks"]))
        for q in given["ranks"]}
    for _ in range(given["runs"]):
        means = []
        for place in range(given["sizes"][1]):
            part = table["a"][table["by"] == place]
            means.append(summed(part, given["bounds"]["a"], epsilon / 2)
                         / max(half(part.tolist()), 1))
        yield {"mean": np.clip(means, *given["bounds"]["a"]).tolist(),
               "quantile": [candidates[one(table["b"].tolist())] for one in ranked.values()]}


def of_diffprivlib(table, given, _):
    """Its tools, one call each; groups are parts, each at the whole epsilon. It cuts counts at 0
    and at the number of rows, so all of it is drawn."""
    from diffprivlib import tools

    epsilon, bounds = given["epsilon"], given["bounds"]
    rows, groups = given["sizes"]
    for _ in range(given["runs"]):
        yield {"count": [float(tools.count_nonzero(np.ones(len(table["a"])), epsilon=epsilon))],
               "sum": [float(tools.sum(table["a"].astype(float), epsilon=epsilon,
                                       bounds=tuple(bounds["a"])))],
               "mean": [float(tools.mean(table["a"][table["by"] == place].astype(float),
                                         epsilon=epsilon, bounds=tuple(bounds["a"])))
                        for place in range(groups)],
               "quantile": np.ravel(tools.quantile(
                   table["b"].astype(float), given["ranks"], epsilon=epsilon,
                   bounds=tuple(bounds["b"]))).tolist(),
               "histogram": tools.histogram(table["a"], epsilon=epsilon, bins=np.array(
                   given["edges"]))[0].tolist(),
               "crosstab": tools.histogram2d(
                   table["c"], table["by"], epsilon=epsilon, bins=[rows, groups],
                   range=[(-0.5, rows - 0.5), (-0.5, groups - 0.5)])[0].ravel().tolist()}


def main():
    """Every package that is installed."""
    given = json.load(sys.stdin)
    table, found = np.load(given["table"]), {}
    for name, asked in (("opendp", of_opendp), ("diffprivlib", of_diffprivlib)):
        try:
            title = f"{name} {version(name)}"
        except ImportError:
            continue
        laws = {}
        found[title] = {"drawn": list(asked(table, given, laws)), "laws": laws}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
