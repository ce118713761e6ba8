"""What every reading command says of twelve ledgers is what it said: `surfaces.py` renews it."""

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.cli import surfaces


def test_every_reading_command_says_what_it_said():
    kept = json.loads(surfaces.KEPT.read_text(encoding="utf-8"))
    days = {datetime.now(UTC)}
    with tempfile.TemporaryDirectory() as folder:
        told = surfaces.told(Path(folder))
    found = surfaces.digests(told)
    days.add(datetime.now(UTC))
    today = [f"{one:{form}}".lstrip("0") for one in days for form in ("%Y-%m-%d", "%d %b %Y",
                                                                      "%d %B %Y")]
    dated = [words for words, said in told.items() if any(day in said for day in today)]
    assert not dated, f"true on one day only, such as {dated[:5]}"
    changed = [words for words in {**kept, **found} if kept.get(words) != found.get(words)]
    assert not changed, (f"{len(changed)} answers differ, such as {changed[:5]}: compare with "
                         "python -m tests.cli.surfaces FOLDER, then --renew what is meant")
