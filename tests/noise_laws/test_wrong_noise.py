"""Noise that is wrong in one line: the suite `noise-law` sees each.

Seeds are fixed, so a test gives the same answer every time. Right noise: test_noise_law.py.
"""

import dataclasses
import math
import os

import numpy as np
import pytest
from attrs import evolve

from privledger.guard import ledger as _guard  # noqa: F401  (the patched modules are loaded)
from privledger.guard import tuned
from privledger.noise import exact_choice, samplers, top_k, trials_law
from privledger.noise import source as source_module
from privledger.questions import asking as members
from privledger.questions import cells, label_query, query, question, sums
from privledger.testing.fitting import LearnerCheckFailed
from tests.noise_laws import noise_law
from tests.noise_laws.noise_law import check_noise_law

SMALL = 1 << 16


def seen(law):
    (result,) = noise_law.noise_law(laws=[law], size=SMALL)
    return not result.holds


REAL_ROUNDED, REAL_TOP_K = samplers.rounded, top_k.top_k
REAL_RECIPES, REAL_NOISE = sums.recipes, sums.add_noise
ROUNDED = ("gaussian", "laplace")


def scaled(factor, law=None):
    def rounded(which, scale, size, words, **options):
        wrong = law is None or which.name == law
        return REAL_ROUNDED(which, scale * factor if wrong else scale, size, words, **options)
    return rounded


def other_law(which, scale, size, words, **options):
    return REAL_ROUNDED(samplers.GAUSSIAN, scale, size, words, **options)


def by_float(round_, *, signs=None, bits=63):
    """A float sampler with its own way to round, to choose the sign, and to use few bits."""
    def rounded(which, scale, size, words, **options):
        drawn = words(size)
        whole = (drawn & np.uint64((1 << 63) - 1)) >> np.uint64(63 - bits)
        value = round_(which.quantile((whole.astype(float) + 0.5) / 2.0**bits) * scale)
        if signs is None:
            sign = np.where(drawn >> np.uint64(63), -1, 1)
        else:
            sign = signs(drawn)
        return (value * sign).astype(np.int64)
    return rounded


def after(change):
    def rounded(which, scale, size, words, **options):
        return change(REAL_ROUNDED(which, scale, size, words, **options), scale)
    return rounded


def tail_cut(draws, scale):
    limit = np.asarray(scale) * 12
    return np.clip(draws, -limit, limit).astype(np.int64)


def reused(which, scale, size, words, **options):
    """Half of the words, each twice."""
    half = words(size - size // 2)
    held, given = np.concatenate([half, half[: size // 2]]), 0

    def again(n):
        nonlocal given
        given += n
        return held[given - n : given] if n > 1 else words(n)

    return REAL_ROUNDED(which, scale, size, again, **options)


def half_zero(draws, scale):
    draws[::2] = 0
    return draws


def coins(change):
    real = samplers.bernoulli
    return lambda rate, size, words: real(change(rate), size, words)


def coins_rounded_up(rate, size, words):
    if rate >= 1:
        return np.ones(size, dtype=bool)
    return words(size) <= np.uint64(int(rate * 2**64))


def by_modulo(bounds, words):
    return (words(len(bounds)) % bounds.astype(np.uint64)).astype(np.int64)


def one_short(bounds, words):
    return REAL_UNIFORM(np.maximum(bounds - 1, 1), words)


def by_floor(bounds, words):
    """No rejection: multiples of 2**-53 only, some numbers more often than others."""
    return np.minimum((words(len(bounds)) >> np.uint64(58)).astype(float) / 64 * bounds,
                      bounds - 1).astype(np.int64)


REAL_UNIFORM, REAL_CHOOSE = exact_choice.uniform_below, exact_choice.choose
REAL_FLIP, REAL_RESPOND = exact_choice.permute_and_flip, exact_choice.randomized_response


def choose(change):
    return lambda scores, weights, starts, rate, words: REAL_CHOOSE(
        *change(scores, weights, starts, rate), words)


def next_one(scores, weights, starts, rate, words):
    picks = REAL_CHOOSE(scores, weights, starts, rate, words)
    return np.where(picks + 1 < starts[1:], picks + 1, picks)


def first_accepted(scores, starts, rate, words):
    edges = exact_choice._checked_starts(starts, len(scores))
    heads = exact_choice._coins(scores, edges, rate, words, 1.0)
    words(len(edges) - 1)
    places = np.where(heads, np.arange(len(scores)), len(scores))
    return np.minimum.reduceat(places, edges[:-1])


def no_flip(scores, starts, rate, words):
    """One order for all: the exponential mechanism instead."""
    return REAL_CHOOSE(scores, np.ones(len(scores), dtype=np.int64), starts, rate, words)


def never_the_truth(codes, count, noise, words):
    drawn = np.flatnonzero(words(len(codes)) >= np.uint64(int((1 - noise) * 2**64)))
    out = codes.copy()
    others = REAL_UNIFORM(np.full(len(drawn), count - 1), words)
    out[drawn] = others + (others >= codes[drawn])
    return out


def wrong_size(ranked, k, rate, gamma, place, words):
    rival = REAL_RIVAL(ranked, k, rate, gamma, place, words)
    if rival.h == k:
        return rival
    return dataclasses.replace(rival, size=math.comb(rival.t - rival.h - 1, k - rival.h - 1))


def next_worst(ranked, k, rate, gamma, place, words):
    h, t, word = place
    return dataclasses.replace(REAL_RIVAL(ranked, k, rate, gamma, (h, min(t + 1, len(ranked)),
                                                                   word), words), t=t)


REAL_RIVAL, REAL_SUBSET = top_k._rival, top_k._subset


def sets_by(**changes):
    def drawn(scores, k, rate, noise, words, **options):
        given = {"rate": rate, "noise": noise, **options}
        for name, change in changes.items():
            given[name] = change(given[name])
        return REAL_TOP_K(scores, k, given.pop("rate"), given.pop("noise"), words, **given)
    return drawn


def recipes(change):
    return lambda *given: tuple(change(recipe) for recipe in REAL_RECIPES(*given))


def noise_of_the_first_block(mechanism, parts, made, source):
    """Every block gets the first one's draws, scaled."""
    noisy = REAL_NOISE(mechanism, parts, made, source)
    steps = noisy[0] / made[0].grid - parts[0]
    return [noisy[0]] + [
        (part + np.rint(steps * (recipe.noise / made[0].noise))) * recipe.grid
        for part, recipe in zip(parts[1:], made[1:], strict=True)]


def remembering():
    kept = []

    def add_noise(mechanism, parts, made, source):
        fresh = REAL_NOISE(mechanism, parts, made, source)
        noise = [noisy - part * recipe.grid
                 for noisy, part, recipe in zip(fresh, parts, made, strict=True)]
        kept.append(noise)
        return [part * recipe.grid + old
                for part, recipe, old in zip(parts, made, kept[0], strict=True)]
    return add_noise


def some_share(mechanism, parts, made, source):
    """In a few hundred of 65,536 cells the noise is the neighbour cell's."""
    noisy = REAL_NOISE(mechanism, parts, made, source)
    for one, part, recipe in zip(noisy, parts, made, strict=True):
        noise = one - part * recipe.grid
        noise[::200] = noise[1::200][: len(noise[::200])]
        one[:] = part * recipe.grid + noise
    return noisy


def no_check(mechanism, bounds, hint):
    louder = evolve(mechanism, l1_sensitivity=2 * mechanism.l1_sensitivity)
    return REAL_LAPLACE(louder, bounds, hint)


REAL_LAPLACE, REAL_RATE, REAL_SENSITIVITY = sums._laplace, question.rate_of, query.Query.sensitivity
REAL_FACTOR, REAL_FIRST = trials_law.TrialsLaw.factor, trials_law.TrialsLaw.at_least
REAL_DECIDED = trials_law._decided
REAL_LAW, REAL_INDEX, REAL_SAMPLE = tuned.TrialsLaw, cells.CoinCells.index, members.Members.sample


def rate_times(factor):
    return lambda *given: REAL_RATE(*given) * factor


def rate_of_add_remove(mechanism, asked, relation):
    return REAL_RATE(mechanism, asked, "add_remove")


def first_times(factor):
    def at_least(self, digits):
        low, high = REAL_FIRST(self, digits)
        return low * factor, high * factor
    return at_least


def wrong_law(distribution, shape, success, mean):
    return REAL_LAW(distribution, shape, success * 0.999, mean * 1.001)


def one_sample(self, data, rows, kept={}):  # noqa: B006
    """The same coins for every handle of a rate."""
    rate = data.steps[-1].context.rate
    if rate not in kept:
        kept[rate] = REAL_SAMPLE(self, data, rows)
    else:
        rows.source.bernoulli(rate, rows.n)
    return kept[rate]


def fresh_coins(self, data, rows):
    """Other coins for every round of an allocation."""
    self._samples.clear()
    return REAL_SAMPLE(self, data, rows)


def equal_parts(self, rows):
    return REAL_INDEX(evolve(self, weights=()), rows)


def cut_again(self, size):
    first = self._next
    found = REAL_CUT(self, size)
    self._next = max(self._next - 1, 0) if first else self._next
    return found


def cut_unwiped(self, size):
    if len(self._words) - self._next < size:
        self._words, self._next = source_module._fresh(8192), 0
    self._next += size
    return self._words[self._next - size : self._next].copy()


def past_the_end(self, size):
    """What is missing at the buffer's end is whatever lies there: wiped words."""
    if len(self._words) and 0 < len(self._words) - self._next < size:
        self._next = len(self._words) - size
        return self._words[-size:].copy()
    return REAL_CUT(self, size)


REAL_CUT = source_module._Pool._cut


class Nobody(set):
    def add(self, one):
        """Forgets it."""


def forked(patch):
    patch.setattr(source_module, "_sources", Nobody())  # the hook finds no source
    here = os.getpid()
    patch.setattr(source_module.os, "getpid", lambda: here)


ROUNDING = {
    "scale .9995": (scaled(0.9995), ROUNDED),
    "scale 1.0005": (scaled(1.0005), ROUNDED),
    "a Gaussian for Laplace": (other_law, ["laplace"]),
    "sigma for b": (scaled(1 / math.sqrt(2), "laplace"), ["laplace"]),
    "variance for sigma": (scaled(1.1, "gaussian"), ["gaussian"]),
    "no margin": (lambda which, scale, size, words, **options: REAL_ROUNDED(
        which, scale, size, words, margin=0.0), ["rounding-edges"]),
    "quantiles off by 2**-30": (by_float(lambda x: np.rint(x * (1 + 2.0**-30))),
                                ["rounding-edges"]),
    "floor for rint": (by_float(np.floor), ROUNDED),
    "ceil for rint": (by_float(np.ceil), ROUNDED),
    "the sign is the magnitude's first bit": (
        by_float(np.rint, signs=lambda w: np.where(w >> np.uint64(62) & np.uint64(1), 1, -1)),
        ROUNDED),
    "all signs plus": (by_float(np.rint, signs=lambda w: np.ones(len(w))), ROUNDED),
    "32 bits of the uniform": (by_float(np.rint, bits=32), ROUNDED),
    "24 bits of the uniform": (by_float(np.rint, bits=24), ROUNDED),
    "tails cut at 12 scales": (after(tail_cut), ["laplace"]),
    "half of the words twice": (reused, ROUNDED),
    "half of the draws zero": (after(half_zero), ROUNDED),
    "one step too far": (after(lambda draws, scale: draws + 1), ROUNDED),
    "scale .999 in the session": (scaled(0.999), ("session-gaussian", "session-laplace"))}
OTHERS = [
    ("coins rounded up", samplers, "bernoulli", coins_rounded_up, ["bernoulli"]),
    ("coins .9995", samplers, "bernoulli", coins(lambda rate: rate * 0.9995),
     ["bernoulli", "session-sample"]),
    ("tails for heads", samplers, "bernoulli", coins(lambda rate: 1 - rate),
     ["bernoulli", "session-sample"]),
    ("uniform by modulo", exact_choice, "uniform_below", by_modulo, ["uniform"]),
    ("uniform one short", exact_choice, "uniform_below", one_short, ["uniform"]),
    ("uniform without rejection", exact_choice, "uniform_below", by_floor, ["uniform"]),
    ("choice without weights", exact_choice, "choose",
     choose(lambda s, w, e, r: (s, np.ones_like(w), e, r)), ["exponential"]),
    ("choice at rate .9995", exact_choice, "choose",
     choose(lambda s, w, e, r: (s, w, e, r * 0.9995)), ["exponential"]),
    ("choice at rate 1.002", exact_choice, "choose",
     choose(lambda s, w, e, r: (s, w, e, r * 1.002)), ["session-exponential"]),
    ("choice of the next", exact_choice, "choose", next_one,
     ["exponential", "session-exponential"]),
    ("the first accepted", exact_choice, "permute_and_flip", first_accepted,
     ["permute-and-flip", "session-permute-and-flip"]),
    ("exponential for flips", exact_choice, "permute_and_flip", no_flip,
     ["permute-and-flip", "session-permute-and-flip"]),
    ("flips at rate .999", exact_choice, "permute_and_flip",
     lambda s, e, r, w: REAL_FLIP(s, e, r * 0.999, w),
     ["permute-and-flip", "session-permute-and-flip"]),
    ("responses .999", exact_choice, "randomized_response",
     lambda c, b, p, w: REAL_RESPOND(c, b, p * 0.999, w),
     ["randomized-response", "session-responses"]),
    ("responses never true", exact_choice, "randomized_response", never_the_truth,
     ["randomized-response", "session-responses"]),
    ("responses of one bucket less", exact_choice, "randomized_response",
     lambda c, b, p, w: REAL_RESPOND(c, max(b - 1, int(c.max()) + 1, 2), p, w),
     ["randomized-response"]),
    ("labels' parameter .999", label_query, "respond",
     lambda s, c, k, m, real=label_query.respond: real(
         s, c, k, evolve(m, noise_parameter=m.noise_parameter * 0.999)), ["session-responses"]),
    ("a label outside counts as the first candidate", label_query, "respond",
     lambda s, c, k, m, real=label_query.respond: real(
         s, c if k is None else np.where((k == c[:, None]).any(axis=1), c, k[:, 0]), k, m),
     ["session-responses"]),
    ("class sizes C(t-h-1, k-h-1)", top_k, "_rival", wrong_size,
     ["top-k-exponential", "top-k-gumbel"]),
    ("classes' worst one off", top_k, "_rival", next_worst, ["top-k-exponential"]),
    ("subsets are the first ones", top_k, "_subset", lambda n, size, words: np.arange(size),
     ["top-k-exponential"]),
    ("gumbel for exponential", top_k, "top_k", sets_by(noise=lambda n: "gumbel"),
     ["top-k-exponential", "session-features"]),
    ("exponential for gumbel", top_k, "top_k", sets_by(noise=lambda n: "exponential"),
     ["top-k-gumbel"]),
    ("top-k at rate .9995", top_k, "top_k", sets_by(rate=lambda r: r * 0.9995),
     ["top-k-exponential", "top-k-gumbel", "session-features"]),
    ("another gamma", top_k, "top_k", sets_by(gamma=lambda g: g / 2), ["top-k-gumbel"]),
    ("tuning's factor 1.0005", trials_law.TrialsLaw, "factor",
     lambda self, k: REAL_FACTOR(self, k) * 2001 / 2000, ["trials", "session-trials"]),
    ("tuning's mean .9995", trials_law, "_decided",
     lambda law, *bits: REAL_DECIDED(evolve(law, success=law.success * 1.0005,
                                            mean=law.mean * 0.9995), *bits),
     ["trials", "session-trials"]),
    ("tuning's first term 1.0005", trials_law.TrialsLaw, "at_least",
     first_times(trials_law.Decimal("1.0005")), ["trials", "session-trials"]),
    ("the session's tuning .999", tuned, "TrialsLaw", wrong_law, ["session-trials"]),
    ("recipes .999", query, "recipes", recipes(lambda r: evolve(r, noise=r.noise * 0.999)),
     ["session-gaussian", "session-laplace"]),
    ("recipes .9995", query, "recipes", recipes(lambda r: evolve(r, noise=r.noise * 0.9995)),
     ["session-gaussian", "session-laplace"]),
    ("a grid too coarse", query, "recipes",
     recipes(lambda r: evolve(r, grid=r.grid * 2**15, noise=r.noise / 2**15)),
     ["session-gaussian"]),
    ("replace-one forgotten", query.Query, "sensitivity",
     lambda self, block, relation, norm: REAL_SENSITIVITY(self, block, "add_remove", norm),
     ["session-gaussian", "session-laplace"]),
    ("sensitivity .999", query.Query, "sensitivity",
     lambda self, block, relation, norm: REAL_SENSITIVITY(self, block, relation, norm) * 0.999,
     ["session-gaussian", "session-laplace"]),
    ("the node's sensitivity unchecked", sums, "_laplace", no_check, ["session-laplace"]),
    ("one draw for two blocks", query, "add_noise", noise_of_the_first_block,
     ["session-gaussian", "session-laplace"]),
    ("some cells share a draw", query, "add_noise", some_share,
     ["session-gaussian", "session-laplace"]),
    ("one sample for all handles", members.Members, "sample", one_sample, ["session-sample"]),
    ("one sample of a size for all handles", members.Members, "sample", one_sample,
     ["session-fixed"]),
    ("the first ones", members, "subset",
     lambda size, out_of, words: np.arange(out_of) < size, ["session-fixed"]),
    ("one more", members, "subset",
     lambda size, out_of, words: samplers.subset(size + 1, out_of, words), ["session-fixed"]),
    ("coins for a size", members, "subset",
     lambda size, out_of, words: samplers.bernoulli(size / out_of, out_of, words),
     ["session-fixed"]),
    ("the first who came", members, "subset",
     lambda size, out_of, words: np.arange(out_of) < size, ["session-truncated"]),
    ("nobody is cut off", members, "_cut", lambda drawn, most, source: drawn,
     ["session-truncated"]),
    ("rounds of position", members, "integers_below",
     lambda bound, size, words: np.arange(size) % bound, ["session-allocation"]),
    ("one more round", members, "integers_below",
     lambda bound, size, words: samplers.integers_below(bound + 1, size, words),
     ["session-allocation"]),
    ("every round's coins anew", members.Members, "sample", fresh_coins, ["session-allocation"]),
    ("parts without weights", cells.CoinCells, "index", equal_parts, ["session-coins"]),
    ("coins of position", cells.CoinCells, "index",
     lambda self, rows: np.arange(rows.n) % self.count, ["session-coins"]),
    ("a label's rate 1.001", question, "rate_of", rate_times(1.001),
     ["session-permute-and-flip"]),
    ("a label's rate 1.002", question, "rate_of", rate_times(1.002), ["session-exponential"]),
    ("a label's rate of the other relation", question, "rate_of", rate_of_add_remove,
     ["session-exponential", "session-permute-and-flip"]),
    ("a feature's rate 1.0005", question, "rate_of", rate_times(1.0005),
     ["session-features"]),
    ("a pool's word again", source_module._Pool, "_cut", cut_again, ["pool"]),
    ("a pool's words not wiped", source_module._Pool, "_cut", cut_unwiped, ["pool"]),
    ("a pool past its end", source_module._Pool, "_cut", past_the_end, ["pool"])]
# These laws take a second: the default run has some of their faults, and of every other fault
# the first law that sees it.
DEAR = {"subsets are the first ones", "classes' worst one off", "exponential for gumbel",
        "another gamma", "tuning's first term 1.0005", "tuning's factor 1.0005", "scale 1.0005",
        "ceil for rint", "24 bits of the uniform", "recipes .999", "sensitivity .999"}


def cases(title, where, name, wrong, laws):
    for place, law in enumerate(laws):
        marks = [pytest.mark.slow] if place or title in DEAR else []
        yield pytest.param(where, name, wrong, law, id=f"{title}-{law}", marks=marks)


FAULTS = [case for title, (wrong, laws) in ROUNDING.items()
          for case in cases(title, samplers, "rounded", wrong, laws)]
FAULTS += [case for fault in OTHERS for case in cases(*fault)]


@pytest.mark.parametrize(("where", "name", "wrong", "law"), FAULTS)
def test_wrong_noise_is_seen(monkeypatch, where, name, wrong, law):
    monkeypatch.setattr(where, name, wrong)
    assert seen(law)


def test_a_second_release_with_the_noise_of_the_first_is_seen(monkeypatch):
    monkeypatch.setattr(query, "add_noise", remembering())
    assert seen("session-laplace")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_with_its_parents_words_is_seen(monkeypatch):
    forked(monkeypatch)
    assert seen("pool")


def test_a_failed_law_has_a_name_and_a_rule(monkeypatch):
    monkeypatch.setattr(samplers, "rounded", scaled(0.999))
    with pytest.raises(LearnerCheckFailed, match="noise-law: laplace: ") as caught:
        check_noise_law(laws=["bernoulli", "laplace"], size=SMALL)
    assert caught.value.check == "noise-law"
