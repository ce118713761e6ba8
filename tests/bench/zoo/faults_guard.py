"""Faults in the guard: samples, individual filters, releases, tunings, and what they charge."""

from __future__ import annotations

from tests.bench.zoo.faults_sums import KIT, LOCK
from tests.bench.zoo.patching import Fault

MEMBERS, RELEASE = "privledger/questions/asking.py", "privledger/guard/release.py"
SPENDS, INDIVIDUAL = "privledger/guard/spends.py", "privledger/ledger/individual.py"
ASKING, ROUNDS = "privledger/questions/asking.py", "privledger/questions/asking.py"
SUMS, TUNED = "privledger/questions/sums.py", "privledger/guard/tuned.py"
SESSION, PROTECTING = "privledger/guard/session.py", "privledger/guard/protecting.py"
INSIDE = "privledger/guard/inside.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "sample-at-twice-the-rate", "Poisson sample", MEMBERS,
        "        drawn = source.bernoulli(sample.rate, members)\n",
        "        drawn = source.bernoulli(min(1.0, 2 * sample.rate), members)\n",
        "sgbdt-sampled", (LOCK,),
        "Records enter with twice the probability that is paid for."),
    Fault(
        "one-sample-for-all-rounds", "Poisson sample", MEMBERS,
        "                drawn = self._samples[whole]\n",
        "                drawn = next(iter(self._samples.values()))\n",
        "sgbdt-sampled", (LOCK,),
        "Every round uses the first round's sample, and is priced as a fresh one."),
    Fault(
        "sample-of-eight-repeated", "private coins", MEMBERS,
        "        drawn = source.bernoulli(sample.rate, members)\n",
        "        drawn = np.resize(source.bernoulli(sample.rate, 8), members)\n",
        "sgbdt-sampled", (LOCK,),
        "Records share eight coins: whether one is in is seen from the others."),
    Fault(
        "sample-by-the-largest", "Poisson sample", MEMBERS,
        "                result = drawn if result is None else result & drawn\n",
        "                drawn = drawn | (rows.features.arrays[0] >= rows.features.arrays[0]"
        ".max()); result = drawn if result is None else result & drawn\n",
        "sgbdt-sampled", (LOCK,),
        "The record with the largest value is always in the sample."),
    Fault(
        "choice-from-everybody", "Poisson sample", MEMBERS,
        "            return rows.subset(np.flatnonzero(sampled if mask is None else mask & "
        "sampled))\n",
        "            return rows.subset(np.arange(rows.n) if mask is None else "
        "np.flatnonzero(mask))\n",
        "sampled", (LOCK,),
        "A choice is made from all records, and priced as made from a sample."),
    Fault(
        "unpaid-take-part", "individual filter", ASKING,
        "        mask = active if mask is None else mask & active\n",
        "        mask = mask if active.all() else mask\n",
        "sgbdt-filter", (LOCK,),
        "A record that could not pay for a round is in it."),
    Fault(
        "filter-pays-half", "individual filter", RELEASE,
        "                    [recipe.weight for recipe in state.recipes],\n",
        "                    [recipe.weight / 2 for recipe in state.recipes],\n",
        "sgbdt-filter", (LOCK,),
        "Every record pays half of what a round costs it."),
    Fault(
        "filter-at-half-the-rate", "individual filter", RELEASE,
        " sampling_rate_of(question.data), rollover)\n",
        " sampling_rate_of(question.data) / 2, rollover)\n",
        "sgbdt-renyi-sampled", (LOCK,),
        "Records pay for a sample of half the rate that they are drawn at."),
    Fault(
        "weights-squared", "individual filter", SUMS,
        "        weight = share / mechanism.noise_multiplier**2 * LIGHTER\n",
        "        weight = share**2 / mechanism.noise_multiplier**2 * LIGHTER\n",
        "sgbdt-filter", (LOCK,),
        "A block costs its share of mu squared; the square of the share is less."),
    Fault(
        "norm-by-the-largest", "individual filter", SUMS,
        "            here += np.square(scaled, out=scaled)\n",
        "            np.maximum(here, np.square(scaled, out=scaled), out=here)\n",
        "sgbdt-filter-classes", (LOCK,),
        "A record pays for its largest coordinate, and gives all of them."),
    Fault(
        "ones-cost-nothing", "individual filter", ROUNDS,
        "            constant += weight\n",
        "            constant += 0.0\n",
        "sgbdt-filter-number", (LOCK,),
        "A block in which every record counts one is paid for by nobody."),
    Fault(
        "charged-at-most-half", "individual filter", ROUNDS,
        "    np.minimum(squares, asked.top, out=squares)\n    return spend.admit(",
        "    np.minimum(squares, asked.top / 2, out=squares)\n    return spend.admit(",
        "sgbdt-filter", (LOCK,),
        "Whoever uses more than half of a round pays half of it."),
    Fault(
        "top-by-the-mean", "others' spends", ROUNDS,
        "    np.minimum(squares, asked.top, out=squares)\n    return spend",
        "    np.minimum(squares, min(asked.top, 1.2 * float(squares.mean())), out=squares)\n"
        "    return spend",
        "sgbdt-filter", (LOCK,),
        "What a record pays depends on the mean of all, so on every other record."),
    Fault(
        "roll-over-keeps-the-values", "individual filter", ROUNDS,
        "            values[place] = array * (factor if array.ndim == 1 else factor[:, None])\n",
        "            values[place] = array\n",
        "sgbdt-rollover", (LOCK,),
        "The price is scaled down to what is left, and the contribution is not."),
    Fault(
        "renyi-at-half-the-order", "individual filter", ROUNDS,
        "        return squares * (asked.order / 2 * (1 + 2.0**-50))\n",
        "        return squares * (asked.order / 4 * (1 + 2.0**-50))\n",
        "sgbdt-renyi", (LOCK,),
        "A round is charged half of its Renyi bound."),
    Fault(
        "table-of-the-squared-rate", "individual filter", ROUNDS,
        "    costs = [0.0] + [poisson_gaussian_rdp(rate, ",
        "    costs = [0.0] + [poisson_gaussian_rdp(rate**2, ",
        "sgbdt-renyi-sampled", (LOCK,),
        "Records pay for a sample of a smaller rate than they are drawn at."),
    Fault(
        "sampled-rounds-for-nothing", "individual filter", RELEASE,
        "    if not tokens:\n",
        "    if not tokens or sampling_rate_of(question.data) < 1.0:\n",
        "sgbdt-renyi-sampled", (LOCK,),
        "Nobody pays for a sampled round, and everybody may take part in it."),
    Fault(
        "whoever-cannot-pay-pays-what-is-left", "individual filter", ROUNDS,
        "    return spend.admit(individual_costs(squares, asked))\n",
        "    return spend.admit(np.minimum(individual_costs(squares, asked), spend.left()))\n",
        "sgbdt-filter", (LOCK,),
        "A record whose cap is used up goes on as if a round cost no more than what is left."),
    Fault(
        "table-below", "individual filter", ROUNDS,
        '    place = np.searchsorted(asked.grid, squares, side="left")\n',
        '    place = np.maximum(np.searchsorted(asked.grid, squares, side="left"), 32) - 32\n',
        "sgbdt-renyi-sampled", (LOCK,),
        "Costs are looked up at grid points below the record's own."),
    Fault(
        "first-grant-forgotten", "individual filter", SPENDS,
        "            spent[: len(taken)] += _own(taken[:n_rows], grant, scope)\n",
        "            spent[: len(taken)] += 0 * _own(taken[:n_rows], grant, scope)\n",
        "scoped", (LOCK,),
        "The second grant on a scope gives every record its whole cap again."),
    Fault(
        "cap-off-by-one", "individual filter", INDIVIDUAL,
        "    active = after <= RECORD_UNITS\n",
        "    active = spent < RECORD_UNITS\n",
        "sgbdt-filter", (LOCK,),
        "A record takes part once more after its cap would be passed."),
    Fault(
        "filter-never-pays", "individual filter", INDIVIDUAL,
        "    np.copyto(spent, after, where=active)\n",
        "    np.copyto(spent, after, where=~active)\n",
        "sgbdt-filter", (LOCK,),
        "Whoever takes part pays nothing."),
    Fault(
        "choices-not-charged", "charge", RELEASE,
        "    inside.charge(leaf, question.data.chain, question.noted(state), "
        "question.cell_count)\n",
        "    if question.clips:\n"
        "        inside.charge(leaf, question.data.chain, question.noted(state), "
        "question.cell_count)\n",
        "joint", (LOCK, KIT),
        "A choice is answered without taking its node off the plan or into the history."),
    Fault(
        "sums-not-itemised", "charge", INSIDE,
        "        self.log.add(chain, leaf, question, cells)\n",
        "        None if cells > 1 else self.log.add(chain, leaf, question, cells)\n",
        "joint", (LOCK, KIT),
        "A release of several cells leaves no line in the history."),
    Fault(
        "smaller-node-booked", "charge", INSIDE,
        "        self.log.add(chain, leaf, question, cells)\n",
        "        self.log.add(chain, type(leaf)(leaf.noise_multiplier * 2) if hasattr(leaf, "
        '"noise_multiplier") else leaf, question, cells)\n',
        "sgbdt", (LOCK,),
        "The history says twice the noise that was drawn."),
    Fault(
        "count-in-the-question", "leak of a count", RELEASE,
        "        return task.question.finish(ask(held, task, inside.members, inside.spends), "
        "noise)\n",
        "        if task.question.clips:\n"
        "            inside.log.add((), noise.mechanism, str(held.n), 1)\n"
        "        return task.question.finish(ask(held, task, inside.members, inside.spends), "
        "noise)\n",
        "joint", (LOCK,),
        "The number of records is written into the history."),
    Fault(
        "count-beside-the-schema", "leak of a count", PROTECTING,
        "own.name, own.digest, now(), own.declared_rows, mark,\n"
        "        vault.public is not None, vault.unlabelled)\n",
        "own.name, own.digest, now(), vault._n_rows, mark,\n"
        "        vault.public is not None, vault.unlabelled)\n",
        "joint", (LOCK,),
        "The history says how many records the table has, which is private."),
    Fault(
        "read-before-the-charge", "charge", RELEASE,
        "    inside.charge(leaf, question.data.chain, question.noted(state), "
        "question.cell_count)\n",
        "    inside.read(lambda held: None)\n"
        "    inside.charge(leaf, question.data.chain, question.noted(state), "
        "question.cell_count)\n",
        "joint", (LOCK, KIT),
        "Rows are read before it is known whether the plan holds the release."),
    Fault(
        "settled-and-still-open", "replayed grant", SESSION,
        "            self._inside.leave.over = True\n",
        "            self._inside.leave.over = False\n",
        "joint", (LOCK,),
        "A grant that is settled answers what its plan still holds, and nobody writes it down."),
    Fault(
        "refund-after-a-look", "refund", SESSION,
        "(failed is None and not back) or self.touched or", "(failed is None and not back) or",
        "joint", (KIT,),
        "A fit that fails after an answer is no longer counted as settled."),
    Fault(
        "exit-with-a-code", "error text", INSIDE,
        "        return SystemExit(1)  # its code could be a value\n",
        "        return error\n",
        "leaving", (LOCK, KIT),
        "The code that a function exits with, a cell perhaps, arrives outside."),
    Fault(
        "at-least-eight-trials", "tuning", TUNED,
        "        for _ in range(runs):\n",
        "        for _ in range(max(runs, 8)):\n",
        "search", (LOCK,),
        "The number of trials has another law than the theorem's: the best of many is dearer."),
    Fault(
        "trials-in-the-history", "tuning", TUNED,
        "        inside.charge(node, (), self.question, 1)\n",
        "        inside.charge(node, (), self.question, runs)\n",
        "search", (LOCK,),
        "The history tells how many trials there were, which must stay secret."),
    Fault(
        "failing-trials-drawn-again", "tuning", TUNED,
        "            found = self._one(branch(node.node, bool(self.why)), data, candidate, "
        "shown)\n",
        "            for _ in range(20):  # what is over fails for ever\n"
        "                found = self._one(branch(node.node, bool(self.why)), data, candidate, "
        "shown)\n"
        "                if not isinstance(found.output, _Failed):\n                    break\n"
        "                candidate = inside.source.integer_below(self.candidates)\n",
        "contest", (LOCK,),
        "Trials that fail are not counted, so what is published is conditioned on success."),
    Fault(
        "one-more-in-the-sample", "fixed sample", "privledger/questions/asking.py",
        "        drawn = subset(sample.size, members, source.integers64)\n",
        "        drawn = subset(min(sample.size + 1, members), members, source.integers64)\n",
        "fixed", (LOCK,),
        "A sample of fixed size holds one more than its node says, which amplifies less."),
    Fault(
        "sample-before-the-filter", "individual filter", "privledger/questions/asking.py",
        "        active = admit_score(task.round, spend, values, mask, rows.n)\n",
        "        active = admit_score(task.round, spend, values, members.sample(data, rows) if "
        "is_sampled(data) else mask, rows.n)\n",
        "sgbdt-renyi-sampled", (LOCK,),
        "Only who is in a sample pays: the price is a sampled round's, of an unseen sample."))
