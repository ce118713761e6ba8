"""The pages form one site: none is left out, and it builds without a warning."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import privledger

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NEEDED = ("sphinx", "myst_parser", "furo")


def toctree_of(page: Path) -> set[str]:
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"),
                        re.DOTALL | re.MULTILINE)
    return {line for block in blocks for line in block.splitlines()
            if line and not line.startswith(":")}


def test_every_page_is_in_the_site() -> None:
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    left_out = pages - toctree_of(DOCS / "index.md")
    assert not left_out, f"name them in a toctree of docs/index.md: {sorted(left_out)}"


def test_every_figure_of_the_gallery_is_drawn() -> None:
    kept = json.loads((DOCS / "figures" / "gallery.json").read_text(encoding="utf-8"))
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name, entry in kept.items():
        assert (DOCS / "figures" / f"gallery-{name}.svg").exists()
        assert f"(figures/gallery-{name}.svg)" in page
        for point in entry["points"]:  # sound is what was asked for, or less
            assert 0 < point["sound"] <= point["epsilon"]


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    """`sphinx-build -W`, on a copy, with the reference of every public name."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed; pip install '.[docs]'")
    for folder in ("docs", "privledger", "learners"):
        shutil.copytree(ROOT / folder, tmp_path / folder,
                        ignore=shutil.ignore_patterns("__pycache__", "reference"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "docs", "site"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    made = "".join(page.read_text(encoding="utf-8")
                   for page in (tmp_path / "site" / "reference").glob("*.html"))
    faces = [name for name, home in privledger._HOME_OF.items() if home == "privledger"]
    names = [name for name in privledger.__all__ if name not in faces]
    names += [f"{face}.{name}" for face in faces for name in getattr(privledger, face).__all__
              if name not in privledger.__all__]
    unlisted = [name for name in names if f'id="privledger.{name}"' not in made]
    assert not unlisted
