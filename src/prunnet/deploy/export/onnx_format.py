"""ONNX, run by onnxruntime. One file, weights inside."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prunnet._torch_export import quiet
from prunnet.deploy.export.tracing import INPUT, OUTPUT, Program, Run
from prunnet.errors import ExportError, MissingExtraError, first_line

SUFFIXES = (".onnx",)


def write(program: Program, metadata: Mapping[str, str], files: Mapping[str, Path]) -> None:
    """Write `files[".onnx"]`."""
    files[".onnx"].write_bytes(serialise(program, metadata))


def serialise(program: Program, metadata: Mapping[str, str]) -> bytes:
    """The ONNX model as bytes."""
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch needs it)
    except ImportError:
        raise MissingExtraError("onnx and onnxscript", "onnx", "an ONNX export") from None
    with quiet():
        exported = torch.onnx.export(program, input_names=[INPUT], output_names=[OUTPUT], dynamo=True, verbose=False)
    assert exported is not None  # dynamo=True returns a program
    model = exported.model_proto
    _name_batch(model.graph)
    onnx.helper.set_model_props(model, dict(metadata))
    return bytes(model.SerializeToString())


def _name_batch(graph: Any) -> None:
    """torch numbers the free dimension; users read its name."""
    number = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == number:
                dimension.dim_param = "batch"


def read(files: Mapping[str, Path]) -> tuple[Run, dict[str, str]]:
    """The model in onnxruntime, and its metadata."""
    session = open_session(str(files[".onnx"]))
    return _run(session), dict(session.get_modelmeta().custom_metadata_map)


def runner(program: Program) -> Run:
    """Run `program` in onnxruntime."""
    return _run(open_session(serialise(program, {})))


def open_session(model: str | bytes) -> Any:
    """An onnxruntime session on the CPU that says nothing but errors."""
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("onnxruntime", "onnx", "running an ONNX model") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()  # one setting for whatever embeds
    # on cores shared with other processes, threads that wait by spinning more than doubled the latency (docs/speed.md)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions share no base of their own
        name = model if isinstance(model, str) else "the model"
        raise ExportError(f"{name} is no ONNX model that onnxruntime can run: {first_line(error)}") from error


def _run(session: Any) -> Run:
    def run(images: Tensor) -> Tensor:
        return torch.from_numpy(session.run([OUTPUT], {INPUT: images.numpy()})[0])

    return run
