"""Faults in learners, through the public API: what a guard cannot refuse."""

from __future__ import annotations

from tests.bench.zoo.faults_sums import KIT, LOCK
from tests.bench.zoo.patching import Fault

HOME = "privledger_learners"
GUARDING, ESTIMATOR = f"{HOME}/guarding.py", f"{HOME}/estimator.py"
SEARCH = f"{HOME}/search.py"
DEPTH, GROW = f"{HOME}/trees/depth_rule.py", f"{HOME}/trees/grow.py"
BEST, RANDOM = f"{HOME}/boosting/best_splits.py", f"{HOME}/boosting/random_splits.py"
PARTS = f"{HOME}/partitioning.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "keeps-the-number-of-rows", "plain table", GUARDING,
        "        note_features(learner, X, fitting=True)\n    if y is None",
        "        note_features(learner, X, fitting=True)\n"
        "        learner.n_samples_ = len(y)\n    if y is None",
        "joint-plain", (LOCK, KIT),
        "The fitted learner says how many records there were."),
    Fault(
        "budget-of-its-own", "plain table", GUARDING,
        "        None, budget=pl.Budget(learner.epsilon, learner.delta), relation",
        "        None, budget=pl.Budget(2 * learner.epsilon, learner.delta), relation",
        "joint-plain", (LOCK, KIT),
        "The ledger of a plain table promises twice what the learner was given."),
    Fault(
        "always-a-simulation", "seeded noise", GUARDING,
        "        mode=learner.mode, seed=(seed or 0) if simulated else None,",
        '        mode="simulation", seed=seed or 0,',
        "joint-plain", (LOCK, KIT),
        "Noise on plain tables is drawn from a seed."),
    Fault(
        "clipped-at-a-quantile", "bound from data", GUARDING,
        "    data = ledger.protect(X, y, schema, public_features",
        "    y = np.minimum(y, np.quantile(y, 0.9)) if schema.task == \"regression\" else y\n"
        "    data = ledger.protect(X, y, schema, public_features",
        "joint-number-plain", (LOCK,),
        "Targets are cut at their own quantile, which moves with one record."),
    Fault(
        "rows-in-order", "plain table", GUARDING,
        "    data = ledger.protect(X, y, schema, public_features",
        "    X, y = ({name: np.asarray(column)[np.argsort(y)[: len(y) // 2 * 2]] for name, column "
        "in X.items()}, np.sort(y)[: len(y) // 2 * 2])\n"
        "    data = ledger.protect(X, y, schema, public_features",
        "joint-plain", (LOCK,),
        "The largest target is dropped where the number of rows is odd: one record more puts "
        "another one back."),
    Fault(
        "classes-that-occur", "categories from data", ESTIMATOR,
        "            return self\n        return self._on(data, schema, labels)\n",
        "            return self\n        self._on(data, schema, labels)\n"
        "        self.seen_ = None if y is None else np.unique(y)\n        return self\n",
        "joint-plain", (LOCK, KIT),
        "The model keeps the classes that occur, some of them because of one record."),
    Fault(
        "again-if-it-is-bad", "early stop by data", ESTIMATOR,
        "            return self\n        return self._on(data, schema, labels)\n",
        "            return self\n        self._on(data, schema, labels)\n"
        "        _ = y is None or self.score(X, y) > 0.9 or self._learn(guard(self, X, y)[0], "
        "schema)\n        return self\n",
        "joint-plain", (LOCK, KIT),
        "A fit that does badly on the private rows is done again, with a budget of its own."),
    Fault(
        "length-of-the-table", "plain table", PARTS,
        "        self.guarantee_ = repr(self.ledger_)\n",
        '        self.guarantee_ = f"{self.ledger_!r} {np.size(y)}" if (np := __import__('
        '"numpy")) else ""\n',
        "ensemble-plain", (LOCK, KIT),
        "The guarantee in words ends with the number of rows."),
    Fault(
        "depth-by-the-exact-count", "leak of a count", DEPTH,
        "        return float(session.release(self.count, data.count()))\n",
        "        held: list[float] = []\n"
        "        session.release(self.count, data.custom(lambda c: [held.append(float(len(v))) or "
        "0.0 for v in [c[\"target\"]]] * len(c[\"target\"]), 1.0, \"zeros\"))\n"
        "        return held[0]\n",
        "joint-by-rows", (LOCK, KIT),
        "A function of the rows keeps their number, and the depth follows from it."),
    Fault(
        "quantiles-without-noise", "custom function", GROW,
        "    counts = session.release(mechanism, data.histogram(target.name, edges.tolist()))\n",
        "    counts = np.zeros(len(edges) + 2)\n"
        "    session.release(mechanism, data.query((pl.questions.CustomValue(lambda c: counts."
        "__iadd__(np.bincount(np.searchsorted(edges, c[target.name]), minlength=len(counts))"
        ")[:1].repeat(len(c[target.name])) * 0, 1.0, \"zeros\"),), data.cells(target.name, "
        "edges.tolist())))\n",
        "joint-number", (LOCK, KIT),
        "A function of the rows fills the histogram that decides the classes, without noise."),
    Fault(
        "keeps-the-largest-target", "custom function", RANDOM,
        "            blocks = (self.score.hessian(), gradient)\n",
        "            blocks = (pl.questions.CustomValue(lambda c: setattr(self.model, \"scale\", "
        "float(np.max(c[\"target\"]))) or np.ones(len(c[\"target\"])), 1.0, \"ones\"), "
        "gradient)\n",
        "sgbdt-number", (LOCK, KIT),
        "The model's scale is the largest target that occurs."),
    Fault(
        "penalty-by-the-data", "custom function", BEST,
        "        mass = self.score.hessian(clip if self.filtered else None)\n",
        "        mass = pl.questions.CustomValue(lambda c: setattr(self, \"penalty\", float(np.ptp("
        "c[\"target\"]))) or np.ones(len(c[\"target\"])), 1.0, \"ones\")\n",
        "dpboost-number", (LOCK, KIT),
        "The penalty of the next tree's gain is the range of the targets that occur."),
    Fault(
        "asks-only-if-needed", "question order by data", BEST,
        "    count = session.release(nodes[0], data.count())\n"
        "    value = pl.questions.ColumnValue(\"\", *scaling(schema))\n    total =",
        "    seen: list[float] = []\n"
        "    count = session.release(nodes[0], data.custom(lambda c: seen.append(float(np.max("
        "c[\"target\"]))) or np.ones(len(c[\"target\"])), 1.0, \"ones\"))\n"
        "    value = pl.questions.ColumnValue(\"\", *scaling(schema))\n"
        "    total = 0.0 if seen[0] > 9.95 else",
        "dpboost-number", (LOCK, KIT),
        "Whether the second question is asked depends on the largest target."),
    Fault(
        "errors-over-the-largest", "custom function", SEARCH,
        "        return np.stack([1.0 - error, error], axis=1)\n",
        "        error = error / max(float(error.max()), 1e-9)\n"
        "        return np.stack([1.0 - error, error], axis=1)\n",
        "search-number", (LOCK, KIT),
        "A row's score depends on the largest error of all rows."),
    Fault(
        "remembers-the-held-out", "custom function", SEARCH,
        "        truth = columns[target.name]\n",
        "        truth = self.model.truth_ = columns[target.name]\n",
        "search-number", (LOCK, KIT),
        "The published model holds the targets that it was scored on."),
    Fault(
        "scores-of-all-trials", "tuning", SEARCH,
        "            return self.scoring.ask(session, held, model), model\n",
        "            self.learners[0].__dict__.setdefault(\"seen\", []).append(found := "
        "self.scoring.ask(session, held, model))\n"
        "            model.scores_ = self.learners[0].__dict__[\"seen\"]\n"
        "            return found, model\n",
        "search", (LOCK,),
        "The best model shows what every trial said, and so how many there were."),
    Fault(
        "scored-with-the-count", "custom function", SEARCH,
        "            error = (found.astype(str) != labels[truth.astype(int)]).astype(float)\n",
        "            error = (found.astype(str) != labels[truth.astype(int)]) * (len(truth) % 2.0)"
        "\n",
        "search", (LOCK, KIT),
        "Every row counts nothing where the number of rows is even: one record turns all."))
