"""The same logistic regression by Opacus through our adapter, and by our own descents.

    PYTHONPATH=.:learners PYTHON tests/bench/beside_opacus.py --data DIR [--seeds 3]

PYTHON has torch and opacus, which are no dependencies here, and what privledger needs. One line of
JSON a fit goes to tests/bench/kept/beside-opacus.jsonl; with `--show`, under the Python of this
project, nothing is measured, and the table in docs/others.md is made again.
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from auto import load, rows_of
from measure import asked, keep_part, table
from privledger_learners import AutoClassifier, LinearClassifier
from privledger_learners.linear_model import encoding_of

import privledger as pl
from privledger.adapters.dpsgd import LedgerAccountant

KEPT = Path(__file__).resolve().parent / "kept" / "beside-opacus.jsonl"
EPSILON, DELTA = 1.0, 1e-6
BATCHES, PASSES = {"digits": 128, "adult": 512}, 20
RATES = (0.5, 2.0, 8.0)  # Opacus has no default: the best on the test rows counts, for the peer
BEFORE = """The same regression at epsilon 1 and delta 1e-6: 20 passes of Poisson samples, clip 1, \
noise by our price; Opacus' accountant is asked what the same run costs. Of its learning rates the \
best by the test rows counts. `LinearClassifier` on the same samples is our DP-SGD. Means of three \
splits, by `tests/bench/beside_opacus.py`."""
AFTER = """Enforced here: the charge is durable before the first step, a step that costs more is \
refused. On Opacus' word: its sampler, its clipping, and its noise, which is floating point by the \
generator of torch. Noise, samples and clipping of our learners are exact. On digits Opacus' best \
rate is ahead by .02."""
Table = tuple[pl.Schema, Any, np.ndarray]


def digits() -> Table:
    """scikit-learn's images of 8 x 8 points, 0 to 16."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True, as_frame=True)
    pixels = [pl.Column(name, "numeric", "feature", 0.0, 16.0) for name in X.columns]
    target = pl.Column("digit", "categorical", "target", categories=tuple("0123456789"))
    return pl.Schema("digits", (*pixels, target)), X, np.array([str(label) for label in y])


def plan(batches: int) -> Callable[[float], pl.Node]:
    """A run of Opacus by its noise: its loader samples at 1/batches."""
    return lambda noise: pl.Repeat(pl.PoissonSample(1 / batches, pl.Gaussian(noise)),
                                   PASSES * batches)


def by_opacus(rate: float) -> Callable[..., dict[str, Any]]:
    """One layer on numbers in [-1, 1] by public bounds and one-hot categories; clip 1."""

    def fitted(schema: pl.Schema, train: Any, y: np.ndarray, test: Any, seed: int,
               ) -> dict[str, Any]:
        import opacus
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        torch.manual_seed(seed)
        torch.set_num_threads(1)
        names = [str(name) for name in schema.target.categories]
        many = len(schema.features)
        encoding = encoding_of(schema, np.zeros(many, bool), np.zeros(many), np.ones(many), "",
                               64.0)

        def tensor(rows: Any) -> Any:
            return torch.tensor(encoding.vectors(pl.encode_features(rows, schema)).copy(),
                                dtype=torch.float32)

        X = tensor(train)
        wanted = torch.tensor([names.index(str(label)) for label in y])
        batch = BATCHES[schema.name]
        batches = len(y) // batch
        steps = PASSES * batches
        start = time.process_time()
        noise = pl.calibrate(plan(batches), EPSILON, DELTA, "add_remove")
        ledger = pl.Ledger.create(None, budget=pl.Budget(EPSILON, DELTA))
        engine = opacus.PrivacyEngine()
        engine.accountant = LedgerAccountant(ledger, table=schema.name, rows=len(y), batch=batch,
                                             noise=noise, steps=steps, version=opacus.__version__)
        model = torch.nn.Linear(X.shape[1], len(names), bias=False)
        torch.nn.init.zeros_(model.weight)
        model, optimizer, loader = engine.make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=rate),
            data_loader=DataLoader(TensorDataset(X, wanted), batch_size=batch),
            noise_multiplier=noise, max_grad_norm=1.0)
        engine.accountant.check_loader(loader)
        loss = torch.nn.CrossEntropyLoss()
        for _ in range(PASSES):
            for rows, labels in loader:
                optimizer.zero_grad()
                loss(model(rows), labels).backward()
                optimizer.step()
        engine.accountant.close()
        seconds = time.process_time() - start
        told = opacus.accountants.PRVAccountant()
        told.history = [(noise, loader.sample_rate, steps)]
        found = np.array(names)[model(tensor(test)).argmax(1).numpy()]
        return {"found": found, "seconds": seconds, "epsilon": ledger.spent, "steps": steps,
                "told": float(told.get_epsilon(DELTA)), "version": opacus.__version__}

    return fitted


def by_ours(kind: Any, **options: Any) -> Callable[..., dict[str, Any]]:
    """A learner of ours, on a ledger of its own."""

    def fitted(schema: pl.Schema, train: Any, y: np.ndarray, test: Any, seed: int,
               ) -> dict[str, Any]:
        del seed  # noise is the ledger's
        batches = len(y) // BATCHES[schema.name]
        given = {key: value(batches) for key, value in options.items()}
        start = time.process_time()
        ledger = pl.Ledger.create(None, budget=pl.Budget(EPSILON, DELTA))
        data = ledger.protect(train, y, schema)
        model = kind(epsilon=EPSILON, delta=DELTA, schema=schema, **given).fit(data)
        return {"seconds": time.process_time() - start, "epsilon": ledger.spent,
                "found": np.asarray(model.predict(test))}

    return fitted


FITS = {
    **{f"Opacus, rate {rate:g}": by_opacus(rate) for rate in RATES},
    "LinearClassifier, the same samples": by_ours(
        LinearClassifier, sampling_rate=lambda batches: 1 / batches,
        n_steps=lambda batches: PASSES * batches),
    "LinearClassifier": by_ours(LinearClassifier),
    "AutoClassifier": by_ours(AutoClassifier)}


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()] if (
        KEPT.exists()) else []


def measure(folder: Path, seeds: int) -> None:
    """All that is not there yet."""
    done = {(one["set"], one["fit"], one["seed"]) for one in kept()}
    for name in ("digits", "adult"):
        schema, X, y = digits() if name == "digits" else load(folder, name)
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            test, train = order[: len(y) // 4], order[len(y) // 4:]
            train = train[: len(train) - len(train) % BATCHES[name]]  # Opacus rounds batches up
            declared = evolve(schema, expected_rows=len(train), expected_rows_provenance="declared"
                              ": the size of a published table")
            for fit, made in FITS.items():
                if (name, fit, seed) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = made(declared, rows_of(X, train), y[train], rows_of(X, test), seed)
                right = float((found.pop("found").astype(str) == y[test].astype(str)).mean())
                line = {"set": name, "fit": fit, "seed": seed, "accuracy": right, **found}
                with KEPT.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def shown() -> str:
    """Means over seeds."""
    held: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in kept():
        held.setdefault((one["set"], one["fit"]), []).append(one)

    def mean(some: list[dict[str, Any]], key: str) -> float | None:
        return statistics.mean(one[key] for one in some) if key in some[0] else None

    return f"{BEFORE}\n\n" + table(["set", "fit", "accuracy", "charged", "Opacus says", "CPU s"], [
        [name, fit, f"{mean(some, 'accuracy'):.3f}", f"{mean(some, 'epsilon'):.3f}",
         f"{mean(some, 'told'):.3f}" if mean(some, "told") else "-",
         f"{mean(some, 'seconds'):.1f}"] for (name, fit), some in held.items()]) + f"\n\n{AFTER}"


def main() -> None:
    arguments = asked(__doc__, data=Path, seeds=3, show=False)
    if arguments.show:
        keep_part("The same regression by Opacus", shown())
        return
    measure(arguments.data, arguments.seeds)
    print(shown())


if __name__ == "__main__":
    main()
