"""Faults in the noise: samplers that have another law, and words that are no randomness."""

from __future__ import annotations

from tests.bench.zoo.faults_sums import GUESS, KIT, LAW
from tests.bench.zoo.patching import Fault

SAMPLERS, SOURCE = "privledger/noise/samplers.py", "privledger/noise/source.py"
CHOICE, TOP_K = "privledger/noise/exact_choice.py", "privledger/noise/top_k.py"
TRIALS = "privledger/noise/trials_law.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "laplace-quantile-short", "noise scale", SAMPLERS,
        "    result = np.log(tail)\n",
        "    result = np.log(tail) * 0.9\n",
        "joint", (LAW, GUESS),
        "Laplace draws are a tenth too small."),
    Fault(
        "laplace-quantile-a-hair-short", "noise scale", SAMPLERS,
        "    result = np.log(tail)\n",
        "    result = np.log(tail) * 0.999\n",
        "joint", (LAW,),
        "Laplace draws are a thousandth too small."),
    Fault(
        "gaussian-tail-cut", "noise scale", SAMPLERS,
        "    result: NDArray[np.float64] = ndtri(tail * 0.5)\n",
        "    result: NDArray[np.float64] = ndtri(np.maximum(tail * 0.5, 1e-3))\n",
        "sgbdt", (LAW,),
        "No draw is beyond three deviations: outputs out there tell the table for certain."),
    Fault(
        "laplace-for-gaussian", "noise scale", SOURCE,
        "        return samplers.rounded(samplers.GAUSSIAN, scale, size, self._words)\n",
        "        return samplers.rounded(samplers.LAPLACE, scale * 0.7, size, self._words)\n",
        "sgbdt", (LAW,),
        "Gaussian noise has the law of Laplace, of about its deviation: losses are others."),
    Fault(
        "scale-cut-in-the-source", "noise scale", SOURCE,
        '        checked = samplers.checked_scale("scale", scale, size)\n',
        '        checked = samplers.checked_scale("scale", scale, size) * 0.9\n',
        "joint", (LAW, GUESS),
        "The source draws at nine tenths of the scale it is asked for."),
    Fault(
        "signs-in-turn", "seeded noise", SAMPLERS,
        "    signs = drawn.view(np.int64) >> 63  # 0, or -1 for a negative draw\n",
        "    signs = -(np.arange(len(drawn)) % 2)\n",
        "joint", (LAW, GUESS),
        "Signs alternate, so everybody knows on which side of the truth an answer lies."),
    Fault(
        "twelve-bits", "seeded noise", SAMPLERS,
        "    fractions = (drawn & _MAGNITUDE_MASK).view(np.int64)\n",
        "    fractions = (drawn & _MAGNITUDE_MASK).view(np.int64) >> 51 << 51\n",
        "joint", (LAW,),
        "Draws have so few bits that some outputs are possible on one of two tables only."),
    Fault(
        "coins-too-willing", "Poisson sample", SAMPLERS,
        "    limit = threshold(rate)\n",
        "    limit = min(threshold(rate) * 5 // 4, 1 << 64)\n",
        "sgbdt-sampled", (LAW,),
        "Coins fall on one side more often than the rate that is paid for."),
    Fault(
        "words-from-a-seed", "seeded noise", SOURCE,
        "    return np.frombuffer(bytearray(os.urandom(8 * size)), dtype=np.uint64)\n",
        "    return np.random.default_rng(size).integers(0, 1 << 64, size=size, "
        "dtype=np.uint64)\n",
        "joint", (LAW, KIT),
        "Every process draws the same words: whoever knows the seed takes the noise away."),
    Fault(
        "words-twice", "noise reuse", SOURCE,
        "        self._next = first + size\n        used = self._words[first : first + size]\n"
        "        words = used.copy()\n        used.fill(0)\n",
        "        self._next = first\n        used = self._words[first : first + size]\n"
        "        words = used.copy()\n        used.fill(0) if size > 8192 else None\n",
        "joint", (LAW,),
        "The pool hands out the same words for release after release."),
    Fault(
        "wiped-words-handed-out", "noise reuse", SOURCE,
        "        self._next = first + size\n",
        "        self._next = first + max(1, size - 1)\n",
        "joint", (LAW,),
        "Every batch begins with a word that was wiped: its draw is far out, on a known side."),
    Fault(
        "weights-ignored", "weights of cuts", CHOICE,
        "    mass *= weights\n",
        "    mass *= weights > 0\n",
        "diprime", (LAW,),
        "A run of cuts weighs as much as a single cut, so the measure follows the data."),
    Fault(
        "sharper-by-a-tenth", "exponential rate", CHOICE,
        "        far *= rate\n",
        "        far *= rate * 1.1\n",
        "joint", (LAW,),
        "Exponents are a tenth larger than the rate that was asked for."),
    Fault(
        "first-that-accepts", "permute-and-flip base", CHOICE,
        "    rank = uniform_below(upto[edges[1:]] - base, words)\n",
        "    rank = uniform_below(upto[edges[1:]] - base, words) * 0\n",
        "diprime-flip", (LAW,),
        "The first candidate that accepts is taken, so none behind the best ever is."),
    Fault(
        "coins-against-two", "permute-and-flip base", CHOICE,
        "    mass = np.exp(-far)\n    drawn = words(len(values))\n",
        "    mass = np.exp2(-2 * far)\n    drawn = words(len(values))\n",
        "diprime-flip", (LAW,),
        "Candidates accept with another base than e, and so far more rarely."),
    Fault(
        "remainder-for-rejection", "weights of cuts", CHOICE,
        "        fits = tried < limits[left]\n",
        "        tried %= limits[left]; fits = tried >= 0\n",
        "joint", (LAW,),
        "The place within a run is not uniform, and runs follow the data."),
    Fault(
        "too-many-kept", "response probabilities", CHOICE,
        "    kept_below = int((1 - replaced) * (1 << 64))  # rounded down; below 2**64, as "
        "replaced > 0\n",
        "    kept_below = int((1 - replaced / 2) * (1 << 64))\n",
        "label", (LAW, GUESS),
        "Half as many codes are replaced as the parameter says."),
    Fault(
        "last-bucket-never", "response probabilities", CHOICE,
        "uniform_below(np.full(len(drawn), most, dtype=np.int64), words)",
        "uniform_below(np.full(len(drawn), most - 1, dtype=np.int64), words)",
        "label", (LAW,),
        "The last bucket is answered by those only whose truth it is."),
    Fault(
        "classes-counted-twice", "top-k classes", TOP_K,
        "    size = 1 if h == k else math.comb(t - h - 2, k - h - 1)\n",
        "    size = 1 if h == k else math.comb(t - h - 1, k - h - 1)\n",
        "dpsis-topk", (LAW,),
        "Sets of one loss are counted as more than there are, some of them twice."),
    Fault(
        "top-k-without-ties", "top-k classes", TOP_K,
        "    best = _winner(rivals, gumbel)\n",
        "    best = rivals[0]\n",
        "dpsis-topk", (LAW,),
        "The first class that may win does, whatever its noise."),
    Fault(
        "one-trial-more", "tuning", TRIALS,
        "        if above <= total_low:\n            return k\n",
        "        if above <= total_low:\n            return k + 1\n",
        "search", (LAW,),
        "The number of trials is one above the law that the price is for."))
