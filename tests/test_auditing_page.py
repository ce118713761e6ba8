"""docs/auditing.md: its blocks run in order, and every command prints what the page shows."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from privledger.cli import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "auditing.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CODES = {"edited": 3, "cut.ledger --receipt": 3, "over.ledger\n": 3, "replace_one": 1, "overlap": 1}


def same_for_all(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    text = re.sub(r"grant-[0-9a-f]{12}", "grant-NAME", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "TIME", text)
    text = re.sub("[0-9a-f]{64}", "HASH", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    text = re.sub(r"head [0-9a-fX]{4,12}([:)])", r"head HASH\1", text)
    return [line.rstrip() for line in text.rstrip().splitlines()]


def answered(folder: Path) -> tuple[str, list[tuple[str, int, int]]]:
    """The page with what every command prints today; and (command, exit code, expected)."""
    scope: dict[str, object] = {}
    codes = []
    os.chdir(folder)

    def again(found: re.Match[str]) -> str:
        kind, body = found.groups()
        if kind == "python":
            exec(compile(body, str(PAGE), "exec"), scope)
            return found[0]
        command, shown = body.split("\n", 1)
        arguments = command.removeprefix("$ privledger ").split()
        if arguments[0] == "explain":
            done = CliRunner().invoke(main, ["log", "study.ledger", "--kind", "granted"])
            arguments[-1] = re.findall(r"grant-[0-9a-f]{12}", done.output)[0]
        done = CliRunner().invoke(main, arguments)
        expected = next((code for part, code in CODES.items() if part in f"{command}\n"
                         and "log" not in command), 0)
        codes.append((command, done.exit_code, expected))
        if same_for_all(done.output) == same_for_all(shown):
            return found[0]
        return f"```console\n{command}\n{done.output.rstrip()}\n```"

    return BLOCK.sub(again, PAGE.read_text(encoding="utf-8")), codes


def test_every_answer_is_the_tools_own(tmp_path, monkeypatch):
    """Where it differs: `python -m tests.test_auditing_page` writes what is printed today."""
    monkeypatch.chdir(tmp_path)  # and back afterwards
    monkeypatch.delenv("COLUMNS", raising=False)
    made, codes = answered(tmp_path)
    assert made == PAGE.read_text(encoding="utf-8")
    assert all(code == expected for _, code, expected in codes), codes
    assert len(codes) == 21


if __name__ == "__main__":
    with TemporaryDirectory() as new:
        PAGE.write_text(answered(Path(new))[0], encoding="utf-8")
