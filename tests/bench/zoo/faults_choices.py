"""Faults in choices: scores, how far one record moves them, candidates, measures, draws."""

from __future__ import annotations

from tests.bench.zoo.faults_sums import GUESS, LOCK
from tests.bench.zoo.patching import Fault

CHOICE, RATES = "privledger/questions/choice.py", "privledger/questions/question.py"
OPTIONS, TALLIES = "privledger/questions/options.py", "privledger/questions/tallies.py"
SPLITS, STATISTICS = ("privledger/questions/options.py", "privledger/questions/tallies.py")
FEATURES, FEATURE_CHOICE = ("privledger/questions/feature_scores.py",
                            "privledger/questions/feature_choice.py")
COLUMNS, ORDER = ("privledger/questions/votes.py", "privledger/questions/order_sketch.py")
VOTES, LABELS = "privledger/questions/votes.py", "privledger/questions/label_query.py"
SUMS_OF_VOTES = "privledger/questions/votes.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "rate-doubled", "exponential rate", RATES,
        "        rate = epsilon / (2 * sensitivity)\n",
        "        rate = epsilon / sensitivity\n",
        "joint", (LOCK,),
        "Scores are multiplied by twice what the node's epsilon allows."),
    Fault(
        "rate-one-percent", "exponential rate", RATES,
        "        rate = epsilon / (2 * sensitivity)\n",
        "        rate = epsilon / (1.98 * sensitivity)\n",
        "dpsis", (LOCK,),
        "Every choice is sharper than its node says, by one part in a hundred."),
    Fault(
        "monotone-by-assumption", "exponential rate", RATES,
        "        rate = epsilon / (sensitivity * (most - least))\n",
        "        rate = epsilon / sensitivity\n",
        "dpsis-topk-correlation", (LOCK,),
        "Scores that rise and fall are treated as if a record moved all of them one way."),
    Fault(
        "fit-moves-by-one", "sensitivity", CHOICE,
        "            return Bound(2.0 if self.labels is not None else 1.0, (-1.0, 0.0), "
        "room=room)\n",
        "            return Bound(1.0, (-1.0, 0.0), room=room)\n",
        "joint", (LOCK,),
        "A record moves a squared error of classes by up to two."),
    Fault(
        "gain-moves-by-one", "sensitivity", CHOICE,
        "            return Bound(3.0, (-1.0, 1 / 3), room=room)\n",
        "            return Bound(1.0, (-1.0, 1 / 3), room=room)\n",
        "dpboost", (LOCK,),
        "A record moves the gain by up to three clips squared, not one."),
    Fault(
        "choice-replaced-as-added", "relation", CHOICE,
        "(-1.0, 0.0), room=room)",
        "(-1.0, 0.0), 1.0, room)",
        "joint-replace", (LOCK,),
        "Replacing is a removal and an arrival: a score moves twice as far."),
    Fault(
        "label-choice-replaced-as-added", "relation", CHOICE,
        "        return Bound(1.0, (0.0, 1.0))\n",
        "        return Bound(1.0, (0.0, 1.0), 1.0)\n",
        "mrf-replace", (LOCK,),
        "A replaced record takes one from a class and gives one to another."),
    Fault(
        "cut-at-the-record", "weights of cuts", CHOICE,
        "                offset = noise.source.uniform_below(options.length[chosen])\n",
        "                offset = 0 * options.length[chosen]\n",
        "diprime", (LOCK,),
        "The cut is the first of its run, which begins at somebody's value."),
    Fault(
        "cut-in-the-middle", "weights of cuts", CHOICE,
        "                offset = noise.source.uniform_below(options.length[chosen])\n",
        "                offset = options.length[chosen] // 2\n",
        "joint", (LOCK,),
        "The cut lies halfway between two records' values, so it tells them."),
    Fault(
        "label-by-majority", "argmax instead of draw", RATES,
        "        return self.picked(drawn_choice(score.ravel(), starts, noise) - starts[:-1])\n",
        "        return self.picked(score.argmax(axis=1))\n",
        "mrf", (LOCK, GUESS),
        "The most frequent class of a leaf is told without noise."),
    Fault(
        "runs-weigh-one", "weights of cuts", OPTIONS,
        "    score, weight = gaps.score, gaps.length.astype(np.int64)\n",
        "    score, weight = gaps.score, np.ones(len(gaps.length), dtype=np.int64)\n",
        "diprime", (LOCK,),
        "Every gap between records weighs the same: the measure follows the data."),
    Fault(
        "best-cut-summed", "sensitivity", OPTIONS,
        "heads.total, np.maximum.reduceat(part.score, starts))",
        "heads.total, np.add.reduceat(part.score, starts))",
        "diprime-exp", (LOCK,),
        "A feature's score is a sum over its cuts, and moves by as many sensitivities."),
    Fault(
        "numbers-tabled-twice", "sensitivity", TALLIES,
        "            table[:, 1] = sums.reshape(self.leaves, bins)\n",
        "            table[:, 1] = 2 * sums.reshape(self.leaves, bins)\n",
        "dpboost", (LOCK,),
        "A gain of doubled sums moves further than one record may move it."),
    Fault(
        "records-tabled-twice", "sensitivity", TALLIES,
        "            table[:, 0] = summed(keys, size, found.mass).reshape(self.leaves, bins)\n",
        "            table[:, 0] = 2 * summed(keys, size, found.mass).reshape(self.leaves, bins)\n",
        "diprime", (LOCK,),
        "Every record counts two where bins are tabled: it moves a rank by two."),
    Fault(
        "labels-tabled-twice", "sensitivity", TALLIES,
        "            flat = summed(keys, self.leaves * width * bins, found.mass)\n",
        "            flat = 2 * summed(keys, self.leaves * width * bins, found.mass)\n",
        "joint", (LOCK,),
        "Every label counts two where bins are tabled: a score moves further than it is priced."),
    Fault(
        "no-cut-below-everybody", "candidates from data", OPTIONS,
        "    kept = np.flatnonzero(length > 0)\n",
        "    kept = np.flatnonzero((length > 0) & (lower >= 0))\n",
        "diprime", (LOCK,),
        "Cuts below the smallest value are no candidates, so a cut tells that somebody is below."),
    Fault(
        "categories-that-occur", "candidates from data", OPTIONS,
        "    gap_node, first = np.nonzero(possible)\n",
        "    gap_node, first = np.nonzero(possible & table[:, :-1].any(axis=2))\n",
        "joint", (LOCK,),
        "Only categories that somebody has can be chosen."),
    Fault(
        "squares-over-the-root", "sensitivity", SPLITS,
        'np.einsum("ij,ij->i", held, held) / np.where(size > 0, size, 1.0)',
        'np.einsum("ij,ij->i", held, held) / np.where(size > 0, size, 1.0)**0.5',
        "joint", (LOCK,),
        "Squares are divided by the root of a side's size: a record moves them by such a root."),
    Fault(
        "rank-squared", "sensitivity", SPLITS,
        "-np.abs(2.0 * left[:, 0] - total[:, 0])",
        "-np.abs(2.0 * left[:, 0] - total[:, 0])**1.5",
        "ensemble", (LOCK,),
        "One record moves the score by more the farther a cut is from the median."),
    Fault(
        "target-between-extremes", "bound from data", STATISTICS,
        "    scaled = (target_of(rows) - column.lower) / (column.upper - column.lower)\n",
        "    scaled = (target_of(rows) - column.lower) / max(float(np.max(target_of(rows))) - "
        "column.lower, 1e-9)\n",
        "diprime-number", (LOCK,),
        "The largest target sets the unit of the score."),
    Fault(
        "gradient-not-clipped", "clip", STATISTICS,
        "        np.clip(scaled, -1.0, 1.0, out=scaled)\n",
        "        np.clip(scaled, -1e9, 1e9, out=scaled)\n",
        "dpboost-number", (LOCK,),
        "Gradients enter the gain at their full length, and its bound is for clipped ones."),
    Fault(
        "rank-bound-of-one", "sensitivity", FEATURE_CHOICE,
        "            return Bound(most, (-1.0, min(1.0, up(1.0 / most))))\n",
        "            return Bound(1.0, (-1.0, 1.0))\n",
        "dpsis-number", (LOCK,),
        "A record moves the rank score by one and a half."),
    Fault(
        "features-replaced-as-added", "relation", FEATURE_CHOICE,
        "            return Bound(1.0, (0.0, 1.0))\n",
        "            return Bound(1.0, (0.0, 1.0), 1.0)\n",
        "dpsis-replace", (LOCK,),
        "A replaced record moves an agreement by two, one for each half of the change."),
    Fault(
        "best-feature-always", "argmax instead of draw", RATES,
        "    return source.choose(score, ones if weights is None else weights, starts, rate)\n",
        "    return starts[:-1] + int(score.argmax())\n",
        "dpsis", (LOCK, GUESS),
        "The feature with the highest score is told without noise."),
    Fault(
        "top-k-at-k-times-the-rate", "exponential rate", RATES,
        "source.top_k(score, mechanism.k, rate, mechanism.noise)",
        "source.top_k(score, mechanism.k, mechanism.k * rate, mechanism.noise)",
        "dpsis-topk", (LOCK,),
        "A set of k is drawn as if each of them had the whole epsilon."),
    Fault(
        "features-with-votes", "candidates from data", FEATURE_CHOICE,
        "        return scores_of(self.score, self.votes, self.data.schema, merged, "
        "self.weights)\n",
        "        found = scores_of(self.score, self.votes, self.data.schema, merged, "
        "self.weights)\n        return np.where(found > 0, found, -1e4)\n",
        "dpsis-votes", (LOCK,),
        "A feature that no block voted for cannot be chosen: choosing one tells of a vote."),
    Fault(
        "pairs-over-the-root", "sensitivity", ORDER,
        "return found / (merged.keys.shape[1] or 1) if",
        "return found / (merged.keys.shape[1] or 1) ** 0.5 if",
        "dpsis-number", (LOCK,),
        "A record is in as many pairs as there are others; divided by the root of them it "
        "moves the score by their root."),
    Fault(
        "centred-by-the-data", "bound from data", FEATURES,
        "    y = np.trunc(target_numbers(rows) * _STEPS)\n",
        "    y = np.trunc((target_numbers(rows) - target_numbers(rows).mean()) * _STEPS)\n",
        "dpsis-correlation", (LOCK,),
        "The mean that is taken away moves with one record, and with it everybody's product."),
    Fault(
        "scaled-by-the-data", "bound from data", COLUMNS,
        "    table /= half[:, None]\n    np.nan",
        "    table /= np.nanmax(np.abs(table), axis=1, keepdims=True, initial=1e-9)\n"
        "    np.nan",
        "dpsis-correlation", (LOCK,),
        "Columns are scaled by their largest value, which one record sets."),
    Fault(
        "blocks-by-position", "private coins", VOTES,
        "(source.integers64(n) % np.uint64(votes.blocks)).astype(np.int64)",
        "np.arange(n, dtype=np.int64) * votes.blocks // max(n, 1)",
        "dpsis-votes", (LOCK,),
        "Borders between the blocks move with the number of records: every block changes."),
    Fault(
        "votes-by-size", "sensitivity", SUMS_OF_VOTES,
        "        chosen = block_votes(votes, gram, gaps, steps)\n        found[chosen] += 1.0\n",
        "        chosen = block_votes(votes, gram, gaps, steps)\n"
        "        found[chosen] += float(gram[0, 0])\n",
        "dpsis-votes", (LOCK,),
        "A block's vote counts as often as it has records, and one record can turn it."),
    Fault(
        "truth-outside-its-list", "label among candidates", LABELS,
        "    return np.take_along_axis(candidates, answered[:, None], axis=1)[:, 0]\n",
        "    return np.where(held.any(axis=1), np.take_along_axis(candidates, answered[:, None], "
        "axis=1)[:, 0], codes)\n",
        "label", (LOCK,),
        "A label that is not on its list answers with the truth."),
    Fault(
        "half-of-the-responses", "response probabilities", LABELS,
        "    buckets, noise = mechanism.num_buckets, mechanism.noise_parameter\n",
        "    buckets, noise = mechanism.num_buckets, mechanism.noise_parameter / 2\n",
        "label", (LOCK, GUESS),
        "Half as many labels are replaced as the node says."))
