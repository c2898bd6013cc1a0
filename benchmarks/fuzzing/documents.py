"""What a run writes beside its networks: matrix, checkpoint, settings, records and classifier.

Settings and records carry no checksum, since people edit and append to them: they are read or refused.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import yaml
from torch.optim import SGD

from fuzzing.harness import WrongError
from fuzzing.mutations import as_json, damaged, forged, pickled
from fuzzing.networks import network
from prunnet._checked import SEAL, seal
from prunnet.data import ImageSet
from prunnet.evaluation import CompatibilityMatrix
from prunnet.evaluation.matrix import Model
from prunnet.runs import Run
from prunnet.runs.config import resolve
from prunnet.runs.records import read_records
from prunnet.runs.settings import stored_settings, to_yaml
from prunnet.training.checkpoint import load_checkpoint, save_checkpoint

NAMED = ImageSet.from_arrays(np.zeros((3, 8, 8), np.uint8), [0, 1, 2], ["a", "b", "c"])


class Documents:
    name = "documents"
    megabytes = 256

    def __init__(self, canary: Path) -> None:
        self._canary, root = canary, canary.parent / "documents"
        root.mkdir()
        self._net = network()
        self._optimiser = SGD(self._net.parameters(), lr=0.1, momentum=0.9)
        models = (Model(1.0, "a"), Model(0.5, "a"))
        values = np.array([[0.9, 0.8], [0.7, 0.6]])
        matrix = CompatibilityMatrix(models=models, values=values, metric="mAP", data="glyphs", queries=3)
        matrix.to_json(root / "matrix.json")
        progress = {"sampler": {"epoch": 1, "position": 2}, "scale": [1.0, 0], "unreadable": [], "family_id": "a"}
        self._checkpoint = save_checkpoint(root, 3, self._net, self._optimiser, progress)
        self._expected_progress = {"step": 3, **progress}
        self._expected_state = {name: tensor.clone() for name, tensor in self._net.state_dict().items()}
        (root / "config.yaml").write_text(to_yaml(resolve({"data": "glyphs"})))
        rows = [{"step": step, "epoch": 0, "loss": {"1": 0.5}} for step in range(9)]
        (root / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        run = Run(root)
        run.save_classifier(torch.nn.Linear(8, 3), ["a", "b", "c"])
        self._readers: dict[Path, Callable[[Path], Any]] = {
            root / "matrix.json": lambda file: CompatibilityMatrix.from_json(file).values.tolist(),
            self._checkpoint / "state.json": lambda file: self._resume(file.parent),
            self._checkpoint / "state.safetensors": lambda file: self._resume(file.parent),
            root / "classifier.safetensors": lambda _: run.classifier_for(NAMED)[0].weight.tolist(),
            root / "config.yaml": lambda file: resolve(stored_settings(file)),
            root / "metrics.jsonl": read_records,
        }
        self._expected = {file: reader(file) for file, reader in self._readers.items()}

    def _resume(self, checkpoint: Path) -> Any:
        progress = load_checkpoint(checkpoint, self._net, self._optimiser)
        state = self._net.state_dict()
        if any(not torch.equal(state[name], tensor) for name, tensor in self._expected_state.items()):
            raise WrongError("silently different")
        return progress

    def attempt(self, rng: Random) -> str:
        file = rng.choice(list(self._readers))
        before = file.read_bytes()
        sealed = file.suffix not in (".yaml", ".jsonl")
        forge = rng.random() < 0.2 and file.suffix != ".safetensors"
        try:
            file.write_bytes(self._forged(file, rng) if forge else damaged(before, rng))
            if rng.random() < 0.01:
                file.write_bytes(pickled(self._canary))
            content = self._readers[file](file)
        finally:
            file.write_bytes(before)
        if sealed and not forge and content != self._expected[file]:
            raise WrongError("silently different")
        return "forged" if forge else "same" if sealed else "read"

    def _forged(self, file: Path, rng: Random) -> bytes:
        if file.suffix == ".yaml":
            if rng.random() < 0.1:
                return rng.choice(_YAML).format(canary=self._canary).encode()
            return yaml.safe_dump(forged(yaml.safe_load(file.read_text()), rng)).encode()
        if file.suffix == ".jsonl":
            rows = [forged(json.loads(line), rng) for line in file.read_text().splitlines()]
            return b"\n".join(map(as_json, rows))
        content = json.loads(file.read_text())
        content.pop(SEAL, None)
        content = forged(content, rng)
        return as_json(seal(content) if isinstance(content, dict) else content)


_ALIASES = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
_YAML = (
    "!!python/object/apply:os.system ['touch {canary}']",
    "data: !!python/object/apply:os.system ['touch {canary}']",
    "data: &a [*a]",
    "<<: &a {{b: *a}}",
    "data: {{{{[]: 1}}: 2}}",
    _ALIASES + "data: *a8",
    _ALIASES + "backbone_options: {{a: *a8}}",
    "[" * 5000,
    "epochs: 1e999",
    "epochs: 0x" + "f" * 5000,
    "data: 2001-01-01\nseed: 1:30:00",
)
