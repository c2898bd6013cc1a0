"""Checkpoints: the whole state of a run at one step, in a folder that appears at once or not at all.

`checkpoint/step-00000120/` holds `state.safetensors` (method and optimiser) and `state.json` (where the run is). A new
one is renamed into place before the old one goes, so a process killed at any moment leaves a whole one. No random state
is kept: every step draws from generators seeded by (seed, step).
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim import Optimizer

from prunnet._checked import SEAL, load_tensors, save_tensors, seal, unseal
from prunnet._files import remove_folder, replace_folder
from prunnet.errors import CheckpointError, DamagedError


def save_checkpoint(folder: Path, step: int, method: nn.Module, optimiser: Optimizer, progress: dict[str, Any]) -> Path:
    """Write the checkpoint of `step`, then remove older ones."""
    target = folder / f"step-{step:08d}"
    state = optimiser.state_dict()
    tensors = {f"method.{name}": tensor for name, tensor in method.state_dict().items()}
    for index, values in state["state"].items():
        tensors.update({f"optimiser.{index}.{key}": value for key, value in values.items() if value is not None})
    try:
        with replace_folder(target) as staged:
            save_tensors(tensors, staged / "state.safetensors")
            (staged / "state.json").write_text(json.dumps(seal({"step": step, **progress}), indent=1))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"step {step} could not be saved ({error}); the checkpoint before it is still valid"
        ) from error
    for older in _steps(folder)[:-1]:
        remove_folder(older)
    return target


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in `folder`."""
    steps = _steps(folder)
    return steps[-1] if steps else None


def load_checkpoint(path: Path, method: nn.Module, optimiser: Optimizer) -> dict[str, Any]:
    """Bring `method` and `optimiser` to the checkpoint's state and return where the run was."""
    try:
        progress = json.loads((path / "state.json").read_text())
        old = isinstance(progress, dict) and SEAL not in progress  # of the time before checksums
        progress = progress if old else unseal(progress, path / "state.json")
        tensors, _ = load_tensors(path / "state.safetensors", sealed=not old)
    except (OSError, ValueError, DamagedError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); remove it to start again") from error
    device = next(method.parameters()).device
    try:
        state = {n.removeprefix("method."): t for n, t in tensors.items() if n.startswith("method.")}
        method.load_state_dict({name.replace("/", "."): tensor for name, tensor in state.items()})  # as once written
    except RuntimeError as error:
        raise CheckpointError(f"{path} belongs to another network ({str(error).splitlines()[-1].strip()})") from error
    optimised: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".")
            optimised.setdefault(int(index), {})[key] = tensor.to(device if key != "step" else "cpu")
    optimiser.load_state_dict({"state": optimised, "param_groups": optimiser.state_dict()["param_groups"]})
    return progress


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())
