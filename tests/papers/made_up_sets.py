"""Made-up copies of the papers' data sets, in the layout that `--data` reads."""

from __future__ import annotations

import gzip
import json
from importlib.resources import files
from pathlib import Path

import numpy as np

ROWS = 60


def _column(column, rng, n):
    if column["kind"] == "categorical":
        return rng.choice(np.array([str(one) for one in column["categories"]], dtype=object), n)
    if column["kind"] == "numeric":
        values = rng.uniform(column["lower"], column["upper"], n)
        whole = column.get("integer") or column.get("type") == "integer"
        return np.round(values).astype(int) if whole else np.round(values, 3)
    if column["name"].startswith("date"):
        hours = rng.integers(0, 20_000, n)
        return np.array([str(np.datetime64("2016-01-01T00:00:00") + np.timedelta64(int(h), "h"))
                         .replace("T", " ") for h in hours], dtype=object)
    return np.array([f"id{k % 7}" for k in range(n)], dtype=object)


def write(folder: Path, schema: dict, n: int = ROWS) -> None:
    """A table of random cells that fits `schema`."""
    rng = np.random.default_rng(0)
    place = folder / schema["name"]
    place.mkdir(parents=True, exist_ok=True)
    if "columns" not in schema:
        classes = schema["target_categories"]
        y = np.arange(n) % len(classes)
        X = rng.uniform(schema["lower"], schema["upper"], (n, schema["features"]))
        np.savez(place / f"{schema['name']}.npz", X=X, y=y, y_labels=np.array(classes)[y],
                 class_names=np.array(classes),
                 feature_names=np.array([f"f{k}" for k in range(schema["features"])]))
        return
    columns = [_column(column, rng, n) for column in schema["columns"]]
    lines = [",".join(column["name"] for column in schema["columns"])]
    lines += [",".join(str(column[k]) for column in columns) for k in range(n)]
    with gzip.open(place / f"{schema['name']}.csv.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def packaged() -> dict[str, dict]:
    """The schemas that come with the package, by name."""
    folder = files("privledger_papers").joinpath("schemas")
    return {path.name.removesuffix(".json"): json.loads(path.read_text("utf-8"))
            for path in folder.iterdir()}
