"""Commands that are killed lose nothing that they said was saved, and end the same when they are called again.

A seeded sample of places to die; `python benchmarks/fuzz.py kills` tries them all.
"""

from pathlib import Path

import pytest
from tests.reliability.commands import Command, commands, sampled

SAMPLES = {"train": 7, "resume": 4, "pack": 5, "prune": 6, "evaluate": 6, "compare": 3}


@pytest.mark.slow
@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_a_killed_command_ends_as_if_it_had_not_been(command: Command, tmp_path: Path) -> None:
    root, prepared = tmp_path / "root", tmp_path / "prepared"
    root.mkdir()
    command.begin(root, prepared)
    for at in sampled(command.operations, SAMPLES[command.name], seed=0):
        command.kill(root, prepared, at)
