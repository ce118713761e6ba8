"""Who starts an interpreter starts it so that no file of the current folder runs in it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import house

SAFE = {  # the function that starts one -> what keeps the current folder out
    "privledger.engines.local": '"-I", "-S", "-B", "-c", _BOOT',
    "privledger.broker.remote": '"-I", "-S", "-B", str(BOOT)',
    "privledger.engines.engine_choice": '_SAFE: "1"',
    "privledger_papers.running": 'os.environ["PYTHONSAFEPATH"] = "1"'}
STARTS = {"Popen", "run", "call", "check_call", "check_output", "system", "popen", "execv",
          "execve", "execvp", "posix_spawn", "spawnv", "get_context", "ProcessPoolExecutor",
          "LocalCluster", "Nanny", "set_start_method", "Pool", "Process",
          "create_subprocess_exec", "create_subprocess_shell"}
OWNERS = {"subprocess", "os", "multiprocessing", "asyncio", "distributed"}
# A file with none of these words is not parsed.
MAY_START = re.compile(r"\b(subprocess|multiprocessing|asyncio|distributed|executable|Popen|Nanny"
                       r"|LocalCluster|ProcessPoolExecutor|system|popen|exec\w+|\w*spawnv?p?)\b")


def starts(module: str) -> list[str]:
    """Calls that start a process, in one file."""
    found = []
    if not MAY_START.search(house.OURS[module].read_text(encoding="utf-8")):
        return found
    for node in ast.walk(house.tree(module)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            owner, _, last = name.rpartition(".")
            if last in STARTS and (owner in OWNERS or last in (
                    "LocalCluster", "Nanny", "ProcessPoolExecutor", "Popen")):
                found.append(name)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
            found.append("sys.executable")
    return found


def test_every_place_that_starts_an_interpreter_is_listed():
    found = {module for module in house.OURS if starts(module)}
    assert found == set(SAFE)
    for module, how in SAFE.items():
        assert how in house.OURS[module].read_text(encoding="utf-8"), module


NAMES = ("queue", "numpy", "hmac", "privledger", "attr", "json", "sitecustomize", "usercustomize",
         "multiprocessing", "encodings", "distributed", "scipy")
PLANTED = """
import os
with open(os.environ["PLANTED"], "a") as file:
    file.write(__name__ + "\\n")
raise SystemExit
"""
RUN = """
import sys
sys.path[:] = [one for one in sys.path if one]
import numpy as np, os
import privledger as pl
if __name__ == "__main__":
    os.chdir(sys.argv[1])
    schema = pl.Schema("one", (pl.Column("x", "numeric", "feature", -1.0, 1.0),))
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0))
    def counted(engine):
        data = ledger.protect({"x": np.zeros(64)}, schema, engine=engine)
        with ledger.request(pl.Laplace(8.0), data) as session:
            session.release(pl.Laplace(8.0), data.count())
    if sys.argv[2] == "local":
        counted(pl.engines.Local(1))
    else:
        from privledger.engines.engine_choice import local_cluster
        with local_cluster(1) as client:
            counted(pl.engines.Dask(client))
    print("answered")
"""


@pytest.mark.parametrize(("engine", "by"), [
    ("local", "folder"), ("local", "PYTHONPATH"),
    pytest.param("dask", "folder", marks=pytest.mark.slow)])
def test_nothing_planted_in_the_current_folder_runs_in_a_worker(tmp_path, engine, by):
    folder, marked = tmp_path / "planted", tmp_path / "marked"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED, encoding="utf-8")
    script = tmp_path / "script.py"
    # The driver itself is clean: it found its modules before the folder was in anybody's path.
    change = f"os.environ['PYTHONPATH'] = {str(folder)!r}; " if by == "PYTHONPATH" else ""
    script.write_text(RUN.replace("os.chdir", f"{change}os.chdir"), encoding="utf-8")
    place = folder if by == "folder" else tmp_path
    done = subprocess.run(
        [sys.executable, str(script), str(place), engine], capture_output=True, text=True,
        check=False, timeout=120, env={**os.environ, "PLANTED": str(marked), "PYTHONPATH": ""})
    assert not marked.exists(), marked.read_text()
    assert done.returncode == 0 and "answered" in done.stdout, done.stderr[-2000:]


def test_a_run_with_an_engine_loads_nothing_of_its_folder(tmp_path):
    examples = Path(__file__).parents[2] / "docs" / "examples"
    for name in ("pay.csv", "pay.schema.json"):
        shutil.copy(examples / name, tmp_path)
    (tmp_path / "pay.toml").write_text(
        '[run]\nlearner = "sgbdt-regressor"\n[params]\nepsilon = 0.1\nn_trees = 3\n[data]\n'
        'schema = "pay.schema.json"\ntable = "pay.csv"\n[budget]\nepsilon = 2.0\n'
        'delta = 1e-6\n', encoding="utf-8")
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(PLANTED, encoding="utf-8")
    marked = tmp_path / "marked"
    command = Path(sys.executable).with_name("privledger")
    done = subprocess.run(
        [*([str(command)] if command.exists() else [sys.executable, "-P", "-m", "privledger"]),
         "run", "pay.toml", "--ledger", "l.ledger", "--engine", "local", "--workers", "1"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PLANTED": str(marked), "PYTHONPATH": ""})
    assert not marked.exists(), marked.read_text()
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_function_of_a_module_beside_the_script_is_loaded_alone(tmp_path):
    """Of the script's folder a worker loads what the script has loaded, and no other file."""
    beside, marked = tmp_path / "beside", tmp_path / "marked"
    (beside / "parts").mkdir(parents=True)
    (beside / "mine.py").write_text("import other\nfrom parts.inner import two\n"
                                    "def half(t): return two(t) * other.quarter\n")
    (beside / "other.py").write_text("quarter = 0.25\n")
    (beside / "parts" / "inner.py").write_text("def two(t): return 2 * t['x']\n")
    (beside / "script.py").write_text(RUN.replace("import numpy", "import mine, numpy").replace(
        "data.count()", "data.custom(mine.half, 1.0, 'half')"), encoding="utf-8")
    for name in (*NAMES, "pandas", "msgpack", "cloudpickle"):
        (beside / f"{name}.py").write_text(PLANTED, encoding="utf-8")
    # the script finds its own modules last, so that what is planted is no module of its own
    script = beside / "script.py"
    script.write_text(script.read_text().replace(
        "import mine", f"sys.path.append({str(beside)!r}); import mine"))
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(beside), "local"], capture_output=True, text=True,
        check=False, timeout=120, env={**os.environ, "PLANTED": str(marked), "PYTHONPATH": ""})
    assert done.returncode == 0 and "answered" in done.stdout, done.stderr[-2000:]
    assert not marked.exists(), marked.read_text()
