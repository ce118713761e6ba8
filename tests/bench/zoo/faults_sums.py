"""Faults in sums: contributions, their bounds, their cells, and the noise on them."""

from __future__ import annotations

from typing import Final

from tests.bench.zoo.patching import Fault

LOCK: Final = "lockstep"
LAW: Final = "noise law"
GUESS: Final = "guessing"
KIT: Final = "kit"
QUERY, BLOCKS = "privledger/questions/query.py", "privledger/questions/blocks.py"
SUMS, CELLS = "privledger/questions/sums.py", "privledger/questions/cells.py"
SCORE, MEMBERS = "privledger/questions/score.py", "privledger/questions/asking.py"
LINKS = "privledger/questions/links.py"
BINS, RELEASE = "privledger/tables/bins.py", "privledger/guard/release.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "sum-sensitivity-halved", "sensitivity", QUERY,
        "            return block.clip\n        if block.signed:",
        "            return block.clip / 2\n        if block.signed:",
        "sgbdt", (LOCK, GUESS),
        "Gaussian noise is scaled to half of what one record adds."),
    Fault(
        "replaced-sign-forgotten", "sensitivity", QUERY,
        "            return 2 * block.clip\n        if not self._moves",
        "            return block.clip\n        if not self._moves",
        "sgbdt-number-replace", (LOCK, GUESS),
        "A replaced record moves a signed sum from one end to the other, twice its clip."),
    Fault(
        "replaced-cell-forgotten", "sensitivity", QUERY,
        "        return up(math.sqrt(2) * block.clip) if norm == 2 else",
        "        return block.clip if norm == 2 else",
        "sgbdt-replace", (LOCK,),
        "A replaced record leaves one cell and enters another: the root of two, not one."),
    Fault(
        "label-cells-as-one", "relation", QUERY,
        'relation != "replace_label" or depends_on_label(self.cells)',
        'relation != "replace_label" or not depends_on_label(self.cells)',
        "labels", (LOCK,),
        "A changed label leaves one class and enters another, and is priced as if it stayed."),
    Fault(
        "every-block-takes-all", "off-by-one share", SUMS,
        "    shares = mechanism.shares or (1.0,)\n",
        "    shares = (1.0,) * len(bounds)\n",
        "sgbdt", (LOCK, GUESS),
        "Count and sum each get the noise of the whole node: together they cost twice."),
    Fault(
        "share-without-root", "noise scale", SUMS,
        "bound * mechanism.noise_multiplier / math.sqrt(share) * MORE",
        "bound * mechanism.noise_multiplier / share**0.25 * MORE",
        "sgbdt", (LOCK,),
        "A block's noise grows with the fourth root of its share where the proof needs the root."),
    Fault(
        "laplace-nine-tenths", "noise scale", SUMS,
        "    scale = mechanism.scale * MORE * MORE\n",
        "    scale = mechanism.scale * 0.9\n",
        "joint", (LOCK, GUESS),
        "Every Laplace release has a tenth less noise than its node says."),
    Fault(
        "laplace-one-in-a-thousand", "noise scale", SUMS,
        "    scale = mechanism.scale * MORE * MORE\n",
        "    scale = mechanism.scale * 0.999\n",
        "joint", (LOCK,),
        "A thousandth less noise than the node says, in every Laplace release."),
    Fault(
        "laplace-per-unit", "noise scale", SUMS,
        "    scale = mechanism.scale * MORE * MORE\n",
        "    scale = mechanism.scale / mechanism.l1_sensitivity * MORE\n",
        "joint-replace", (LOCK,),
        "The scale was for the whole sensitivity; divided by it the cost is doubled."),
    Fault(
        "noise-thinned-by-cells", "noise scale", SUMS,
        "np.repeat([recipe.noise for recipe in made], sizes), source)\n",
        "np.repeat([recipe.noise / size**0.5 for recipe, size in "
        "zip(made, sizes)], sizes), source)\n",
        "joint", (LOCK,),
        "Cells are told with less noise the more there are, though a record is in one of them."),
    Fault(
        "one-draw-for-all-cells", "noise reuse", SUMS,
        "    return draw(scales, len(scales))\n",
        "    return np.repeat(draw(scales[:1], 1), len(scales))\n",
        "joint", (LOCK,),
        "All cells share one draw, so differences between them are exact."),
    Fault(
        "blocks-share-noise", "noise reuse", SUMS,
        "        start += size\n",
        "        start += 0\n",
        "sgbdt", (LOCK,),
        "The second block gets the first one's draws: their difference is exact."),
    Fault(
        "empty-cells-stay-empty", "leak of a count", SUMS,
        "        noisy = part + noise[start : start + size].reshape(part.shape)\n",
        "        noisy = part + (part != 0) * noise[start : start + size].reshape(part.shape)\n",
        "joint", (LOCK, KIT),
        "A cell without records answers zero, exactly: whether somebody is there is told."),
    Fault(
        "ones-count-two", "sensitivity", SUMS,
        "        each = math.floor(1.0 / grid)\n",
        "        each = math.floor(2.0 / grid)\n",
        "joint", (LOCK, GUESS),
        "A record adds two to a count whose noise is for one."),
    Fault(
        "rounded-away-from-zero", "rounding", SUMS,
        "    np.trunc(steps, out=steps)\n",
        "    steps = np.sign(steps) * np.ceil(np.abs(steps))\n",
        "sgbdt-classes", (LOCK,),
        "Contributions grow to the next grid step, past the clip that noise is scaled to."),
    Fault(
        "vectors-clipped-by-the-longest", "bound from data", BLOCKS,
        "    np.maximum(size, 1.0, out=size)\n",
        "    size[:] = max(1.0, float(size.max(initial=0.0)))\n",
        "sgbdt-classes", (LOCK,),
        "One long gradient shortens everybody's: all contributions depend on one record."),
    Fault(
        "vectors-not-clipped", "clip", BLOCKS,
        "    np.maximum(size, 1.0, out=size)\n",
        "    size[:] = 1.0\n",
        "sgbdt-classes", (LOCK,),
        "Every coordinate is bounded, the norm of all of them is not."),
    Fault(
        "other-norm", "clip", BLOCKS,
        "    size = length(columns, norm, block.clip)\n",
        "    size = length(columns, 3 - norm, block.clip)\n",
        "dpboost-classes", (LOCK,),
        "Under Laplace noise contributions are bounded in the L2 norm, and longer in L1."),
    Fault(
        "gaps-filled-with-the-mean", "missing values", BLOCKS,
        "        return np.nan_to_num(values, copy=False, nan=0.0)\n",
        "        return np.nan_to_num(values, copy=False, nan=float(np.nanmean(values)))\n",
        "missing", (LOCK,),
        "Missing cells count as the mean of the others, so one record moves all of them."),
    Fault(
        "refuses-extremes", "class of an error", BLOCKS,
        "        values: NDArray[np.float64] = (numbers_of(self.name, rows) - self.center) / "
        "self.scale\n",
        "        column = numbers_of(self.name, rows)\n"
        "        values: NDArray[np.float64] = (column - self.center) / (self.scale if np.nanmax("
        "column, initial=-1e9) < self.center + 0.9995 * self.scale else refuse_code())\n",
        "sgbdt-number", (LOCK, KIT),
        "Whether somebody is at a bound decides whether there is an answer or an error."),
    Fault(
        "says-what-failed", "error text", BLOCKS,
        "        raised = public_name(type(error))\n",
        "        raised = str(error)\n",
        "stumbling", (LOCK, KIT),
        "The text of a stranger's exception quotes a cell, and goes to the learner."),
    Fault(
        "mask-ignored", "Poisson sample", QUERY,
        "        return cells, None if mask is None or mask.all() else mask\n",
        "        return cells, None\n",
        "sgbdt-sampled", (LOCK,),
        "The sample is drawn, paid for as a sample, and everybody takes part."),
    Fault(
        "coins-by-rank", "private coins", CELLS,
        "            words = rows.coins(self).integers64(coined) %",
        "            words = np.argsort(np.argsort(rows.features.arrays[0])).astype(np.uint64) %",
        "mrf", (LOCK,),
        "Parts follow from ranks: one record moves all those above it to another part."),
    Fault(
        "coins-by-position", "private coins", CELLS,
        "            words = rows.coins(self).integers64(coined) %",
        "            words = np.arange(coined, dtype=np.uint64) %",
        "dpboost-parts", (LOCK,),
        "Without a record everybody behind it is in another part: parts are not independent."),
    Fault(
        "one-coin-for-eight", "private coins", CELLS,
        "            words = rows.coins(self).integers64(coined) %",
        "            words = np.repeat(rows.coins(self).integers64(coined // 8 + 1), 8)[:coined] %",
        "search", (LOCK,),
        "Eight records share a coin: what is seen of seven tells where the eighth is."),
    Fault(
        "edges-at-quantiles", "grid from data", CELLS,
        '        cells = np.searchsorted(self.edges, column, side="right")\n',
        "        cells = np.searchsorted(np.nanquantile(column, np.linspace(0, 1, "
        'len(self.edges))), column, side="right")\n',
        "joint-number", (LOCK,),
        "Borders of the histogram are the data's own quantiles, and move with one record."),
    Fault(
        "bins-between-extremes", "grid from data", BINS,
        "                codes = _equal(array, *self._layout(column))\n",
        "                codes = _equal(array, float(np.nanmin(array, initial=1e9)), float("
        "np.nanmax(array, initial=-1e9)) + 1e-9, self._layout(column)[2])\n",
        "joint", (LOCK,),
        "Bins lie between the smallest and the largest value that occur."),
    Fault(
        "residuals-over-the-largest", "bound from data", SCORE,
        '        return np.searchsorted(self.edges, size, side="right")\n',
        "        return np.searchsorted(self.edges, size / max(float(size.max(initial=0.0)), "
        '1e-9), side="right")\n',
        "sgbdt-number", (LOCK,),
        "The largest residual sets the unit for all: one record moves everybody's cell."),
    Fault(
        "targets-centred", "others' values", LINKS,
        "        scaled = target - center\n",
        "        scaled = target - target.mean()\n",
        "sgbdt-number", (LOCK,),
        "Residuals are taken from the mean of all targets, which every record moves."),
    Fault(
        "score-less-the-mean", "others' values", SCORE,
        "                here += more\n",
        "                here += more - np.int32(more.mean())\n",
        "sgbdt", (LOCK,),
        "What a leaf adds to a record's score depends on where the others are."),
    Fault(
        "filtering-by-the-median", "bound from data", SCORE,
        "            inside[at] = length(found) <= bound\n",
        "            inside[at] = length(found) <= min(bound, float(np.median(length(found))))\n",
        "dpboost-filtering", (LOCK,),
        "Who takes part depends on the median of all gradients, which one record moves."),
    Fault(
        "parts-overlap", "partition overlap", MEMBERS,
        "        members: NDArray[np.bool_] = found[1] == step.context.part\n",
        "        members: NDArray[np.bool_] = found[1] >= step.context.part\n",
        "dpboost-parts", (LOCK,),
        "A record answers in every part up to its own, and the dearest part alone is charged."),
    Fault(
        "parts-move", "partition overlap", MEMBERS,
        "        found = self._parts.get(step.context.token)\n        if found is None:",
        "        found = self._parts.get(step.context.token)\n        if True:",
        "moving", (LOCK,),
        "Cells of a score are computed anew for each part: a record answers in two of them."),
    Fault(
        "relation-forgotten", "relation", RELEASE,
        "    state = question.prepare(leaf, inside.vault.relation)\n",
        '    state = question.prepare(leaf, "add_remove")\n',
        "sgbdt-number-replace", (LOCK, GUESS),
        "Noise is scaled to a record that comes, and the promise is about one that is replaced."))
