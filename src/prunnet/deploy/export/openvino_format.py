"""OpenVINO's intermediate representation: `.xml` for the graph, `.bin` for the weights."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prunnet._torch_export import quiet
from prunnet.deploy.export.tracing import INPUT, OUTPUT, Program, Run, input_shape
from prunnet.errors import ExportError, MissingExtraError

SUFFIXES = (".xml", ".bin")
_SECTION = "prunnet"


def write(program: Program, metadata: Mapping[str, str], files: Mapping[str, Path]) -> None:
    """Write `files[".xml"]` and `files[".bin"]`."""
    openvino = _openvino()
    model = _convert(program)
    for key, text in metadata.items():
        model.set_rt_info(text, [_SECTION, key])
    weights = sum(tensor.numel() * tensor.element_size() for tensor in program.state_dict.values())
    with tempfile.TemporaryDirectory(dir=_room_for(2 * weights + 2**20, files[".xml"].parent)) as folder:
        try:
            openvino.save_model(model, Path(folder) / "model.xml", compress_to_fp16=False)  # it insists on the suffixes
        except RuntimeError as error:
            raise ExportError(f"OpenVINO could not write its model ({error}); free some space") from error
        for suffix in SUFFIXES:
            shutil.copyfile(Path(folder) / f"model{suffix}", files[suffix])


def _room_for(needed: int, target: Path) -> Path:
    """A folder with room for the model: in memory, or where it goes. OpenVINO ends the process on a full disk."""
    for folder in (Path("/dev/shm"), target):
        if folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > needed:
            return folder
    raise ExportError(f"{target} has no room for the {needed:,} bytes that OpenVINO needs; free some space")


def read(files: Mapping[str, Path]) -> tuple[Run, dict[str, str]]:
    """The model in OpenVINO, and its metadata."""
    openvino = _openvino()
    try:
        model = openvino.Core().read_model(files[".xml"].read_bytes(), files[".bin"].read_bytes())
        run = _compile(model)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ExportError(f"{files['.xml']} is no model that OpenVINO can run: {reason}") from error
    section = model.rt_info[_SECTION] if model.has_rt_info([_SECTION]) else {}
    return run, {key: str(text.value) for key, text in section.items()}


def runner(program: Program) -> Run:
    """Run `program` in OpenVINO."""
    return _compile(_convert(program))


def _openvino() -> Any:
    try:
        import openvino  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("openvino", "openvino", "OpenVINO") from None
    return openvino


def _convert(program: Program) -> Any:
    openvino = _openvino()
    shape = openvino.PartialShape([-1, *input_shape(program)[1:]])
    with quiet():
        model = openvino.convert_model(program, input=[shape])
    model.inputs[0].get_tensor().set_names({INPUT})
    model.outputs[0].get_tensor().set_names({OUTPUT})
    return model


def _compile(model: Any) -> Run:
    # on processors with bfloat16 units OpenVINO would compute in it by default
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = _openvino().Core().compile_model(model, "CPU", settings)

    def run(images: Tensor) -> Tensor:
        return torch.from_numpy(compiled(images.numpy())[0].copy())

    return run
