"""Checkpoints: the whole state of a run at one step, in a folder that appears at once or not at all.

`checkpoint/step-00000120/` holds `state.safetensors` (method and optimiser) and `state.json` (where the run is). A new
one is renamed into place before the old one goes, so a process killed at any moment leaves a whole one. No random state
is kept: every step draws from generators seeded by (seed, step).
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim import Optimizer

from prunnet._checked import file_digest, load_tensors, save_tensors
from prunnet._files import remove_folder, replace_folder
from prunnet.errors import CheckpointError, DamagedError

STATE, PROGRESS = "state.safetensors", "state.json"


class _Progress(BaseModel):
    """Where a run was; the oldest also held what is now left out."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    step: Annotated[int, Field(ge=0)]
    sampler: dict[str, Annotated[int, Field(ge=0)]]
    scale: tuple[Annotated[float, Field(gt=0)], Annotated[int, Field(ge=0)]]
    unreadable: list[str]
    family_id: str


def save_checkpoint(folder: Path, step: int, method: nn.Module, optimiser: Optimizer, progress: dict[str, Any]) -> Path:
    """Write the checkpoint of `step`, then remove older ones."""
    target = folder / f"step-{step:08d}"
    state = optimiser.state_dict()
    tensors = {f"method.{name}": tensor for name, tensor in method.state_dict().items()}
    for index, values in state["state"].items():
        tensors.update({f"optimiser.{index}.{key}": value for key, value in values.items() if value is not None})
    try:
        with replace_folder(target) as staged:
            (staged / PROGRESS).write_text(json.dumps({"step": step, **progress}, indent=1))
            unshared = {name: tensor.detach().clone() for name, tensor in tensors.items()}
            save_tensors(unshared, staged / STATE, {"progress": file_digest(staged / PROGRESS)})
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
        tensors, metadata = load_tensors(path / STATE, sealed=False)  # the oldest have no checksums
        if metadata and metadata.get("progress") != file_digest(path / PROGRESS):
            raise DamagedError(f"{PROGRESS} is not the one that was saved with {STATE}")
        progress = _Progress.model_validate_json((path / PROGRESS).read_bytes()).model_dump()
    except (OSError, ValueError, RecursionError, DamagedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path} is damaged ({reason}); remove it to start again") from error
    device = next(method.parameters()).device
    try:
        state = {n.removeprefix("method."): t for n, t in tensors.items() if n.startswith("method.")}
        method.load_state_dict(_in_todays_words(state))
    except RuntimeError as error:
        raise CheckpointError(f"{path} belongs to another network ({str(error).splitlines()[-1].strip()})") from error
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    optimised: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            index, key = _place_of(name, tensor, parameters, path)
            optimised.setdefault(index, {})[key] = tensor.to(device if key != "step" else "cpu")
    optimiser.load_state_dict({"state": optimised, "param_groups": optimiser.state_dict()["param_groups"]})
    return progress


def _place_of(name: str, tensor: Tensor, parameters: list[nn.Parameter], path: Path) -> tuple[int, str]:
    """`optimiser.3.momentum_buffer` → the parameter it belongs to, and what it is, if it has that parameter's shape."""
    _, index, key = name.split(".")
    if int(index) >= len(parameters) or (tensor.ndim and tensor.shape != parameters[int(index)].shape):
        raise CheckpointError(f"{path} belongs to another network ({name} has shape {tuple(tensor.shape)})")
    return int(index), key


def _in_todays_words(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scores were once named with slashes, and a dense network twice."""
    return {name.replace("/", "."): tensor for name, tensor in state.items() if not name.startswith("_call.")}


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / PROGRESS).is_file())
