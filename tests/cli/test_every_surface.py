"""What every reading command says of twelve ledgers is what it said: `surfaces.py` renews it."""

import json
import tempfile
from pathlib import Path

from tests.cli import surfaces


def test_every_reading_command_says_what_it_said():
    kept = json.loads(surfaces.KEPT.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        found = surfaces.digests(surfaces.told(Path(folder)))
    changed = [words for words in {**kept, **found} if kept.get(words) != found.get(words)]
    assert not changed, (f"{len(changed)} answers differ, such as {changed[:5]}: compare with "
                         "python -m tests.cli.surfaces FOLDER, then --renew what is meant")
