"""Some seconds of every fuzzer, always the same mutants; docs/reliability.md has the long runs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COUNTS = {"prun": 6_000, "folders": 500, "exports": 10_000, "images": 10_000, "serve": 5_000}


def findings(name: str, count: int) -> str:
    command = [sys.executable, "benchmarks/fuzz.py", name, "--count", str(count), "--seed", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert f"{count} mutants of seed 0" in done.stdout, done.stderr
    return done.stdout.splitlines()[-1] if done.returncode == 0 else done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_no_mutant_breaks_a_promise(name: str) -> None:
    assert findings(name, COUNTS[name]) == f"{name}_findings: 0"


@pytest.mark.slow
def test_no_damaged_document_breaks_a_promise() -> None:
    assert findings("documents", 3_000) == "documents_findings: 0"
