"""Whole commands, killed at a file operation and called again: what must be there in between, and in the end."""

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from tests.reliability import works
from tests.reliability.killing import run

import prunnet
from prunnet._checked import file_digest, load_tensors
from prunnet._files import restore
from prunnet.evaluation import CompatibilityMatrix
from prunnet.training.checkpoint import latest_checkpoint

Result = dict[str, Any]
"""What a command leaves, to be compared bit for bit."""


@dataclass
class Command:
    """`work`, from the state that `prepare` leaves, and what it results in."""

    name: str
    work: Callable[..., None]
    result: Callable[[Path], Result]
    prepare: Callable[[Path], None] = lambda root: None  # noqa: ARG005
    expected: Result = field(default_factory=dict)
    operations: int = 0

    def begin(self, root: Path, prepared: Path) -> None:
        """Run it once undisturbed, and keep the state before."""
        self.prepare(root)
        _copy(root, prepared)
        self.operations = len(run(self.work, root, root).operations)
        self.expected = self.result(root)
        check_whole(root)
        check_swept(root)

    def kill(self, root: Path, prepared: Path, at: int) -> None:
        """Kill it before operation `at`, see that nothing is half there, call it again, and compare."""
        _copy(prepared, root)
        acknowledged = prepared.parent / "acknowledged"
        acknowledged.unlink(missing_ok=True)
        arguments = (root, acknowledged) if self.work is works.train else (root,)
        run(self.work, root, *arguments, at=at)
        check_whole(root)
        if acknowledged.exists():
            newest = latest_checkpoint(root / "run" / "checkpoint")
            assert newest is not None and int(newest.name.removeprefix("step-")) >= int(acknowledged.read_text())
        run(self.work, root, root)
        assert_equal(self.result(root), self.expected)
        check_whole(root)
        check_swept(root)


def check_whole(root: Path) -> None:
    """Every network, checkpoint and matrix that has its name can be read."""
    for folder in (root / "run" / "model", root / "run" / "best", root / "small"):
        restore(folder)
        if folder.exists():
            prunnet.load(folder)
    for checkpoint in root.rglob("step-*"):
        _, metadata = load_tensors(checkpoint / "state.safetensors")
        assert metadata["progress"] == file_digest(checkpoint / "state.json")
    for matrix in root.rglob("matrix.json"):
        CompatibilityMatrix.from_json(matrix)
    for file in root.rglob("*.prun"):
        prunnet.load(file)


def check_swept(root: Path) -> None:
    """Nothing is left but the empty lock of a file that was whole when its writer died, and is not written again."""
    left = [path for path in root.rglob(".*") if path.suffix in (".tmp", ".previous", ".lock")]
    assert not [path for path in left if path.suffix != ".lock" or path.stat().st_size], f"left behind: {left}"
    for lock in left:
        place = lock.with_name(lock.name.removeprefix(".").removesuffix(".lock"))
        assert place.exists(), f"{lock} is left, although its place is not there"


def assert_equal(found: Result, expected: Result) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        same = torch.equal(found[key], value) if isinstance(value, torch.Tensor) else found[key] == value
        assert same, f"{key} differs from that of a run that nothing stopped"


def _weights(*folders: Path) -> Result:
    return {
        f"{folder.name} {name}": tensor.clone()
        for folder in folders
        for name, tensor in load_tensors(folder / "model.safetensors")[0].items()
    }


def _values(*files: Path) -> Result:
    return {str(place): CompatibilityMatrix.from_json(file).values.tolist() for place, file in enumerate(files)}


def _trained(root: Path) -> Result:
    return _weights(root / "run" / "model") | _values(root / "run" / "evaluation" / "matrix.json")


def _compared(root: Path) -> Result:
    folder = root / "compare"
    models = sorted(folder.glob("one/lr-*/seed-*/model"))
    tables = {file.name: file.read_text() for file in sorted((folder / "one").glob("*.csv"))}
    return _weights(*models) | _values(*sorted(folder.rglob("matrix.json"))) | tables


def _interrupted(root: Path) -> None:
    assert run(works.train, root, root, at=120).killed


def commands() -> list[Command]:
    return [
        Command("train", works.train, _trained),
        Command("resume", works.train, _trained, _interrupted),
        Command("pack", works.pack, lambda root: {"bytes": (root / "family.prun").read_bytes()}, works.train),
        Command("prune", works.prune, lambda root: _weights(root / "small"), works.train),
        Command("evaluate", works.evaluate, lambda root: _values(root / "evaluation" / "matrix.json"), works.train),
        Command("compare", works.compare, _compared),
    ]


def sampled(operations: int, count: int, seed: int) -> Iterable[int]:
    """So many places to die, spread over the whole."""
    return sorted(Random(seed).sample(range(1, operations + 1), min(count, operations)))


def kill_everywhere(step: int, start: int = 1, name: str | None = None) -> int:
    """Every command, or the one of that name, at every `step`-th of its operations from `start` on; fails if one did
    not end as promised.
    """
    findings = 0
    for command in commands():
        if name not in (None, command.name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            root, prepared = Path(folder, "root"), Path(folder, "prepared")
            root.mkdir()
            command.begin(root, prepared)
            places = range(start, command.operations + 1, step)
            for at in places:
                try:
                    command.kill(root, prepared, at)
                except Exception as error:
                    findings += 1
                    print(f"{command.name} killed at operation {at}: {error}", flush=True)
            print(f"{command.name}: killed at {len(places)} operations", flush=True)
    print(f"kills_findings: {findings}")
    return min(1, findings)


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
