"""int8 by onnxruntime: weights per channel, activations by their range on calibration images; and what it costs."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prunnet._torch_export import quiet
from prunnet.data import RetrievalData
from prunnet.deploy.export.exported import ExportedNetwork
from prunnet.deploy.export.tracing import INPUT
from prunnet.errors import ExportError, MissingExtraError
from prunnet.evaluation import compatibility_matrix, embed_images
from prunnet.evaluation.embedding import Encoder
from prunnet.network import Subnetwork
from prunnet.network.functional import evaluating

LEAST_COSINE = 0.9  # of int8 and fp32 embeddings, on average; below, a query would not find its own image


def quantise(file: Path, batches: Sequence[Tensor], metadata: Mapping[str, str]) -> None:
    """Replace the fp32 model in `file` by its int8 version."""
    try:
        import onnx
        from onnxruntime.quantization import (  # type: ignore[import-untyped]
            CalibrationDataReader,
            QuantFormat,
            QuantType,
            quantize_static,
        )
        from onnxruntime.quantization.shape_inference import quant_pre_process  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("onnx and onnxruntime", "onnx", "int8 quantisation") from None
    if not batches:
        raise ExportError("int8 needs calibration images, and none were given")

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches: Iterator[Any] = iter([{INPUT: batch.numpy()} for batch in batches])

        def get_next(self) -> Any:
            return next(self.batches, None)

    with tempfile.TemporaryDirectory(dir=file.parent) as folder, quiet():
        prepared, quantised = Path(folder) / "prepared.onnx", Path(folder) / "quantised.onnx"
        quant_pre_process(str(file), str(prepared), skip_symbolic_shape=True)  # fails on the expansion of a norm
        quantize_static(
            str(prepared),
            str(quantised),
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["Conv", "Gemm", "MatMul", "Relu", "Add", "MaxPool", "GlobalAveragePool"],
        )
        model = onnx.load(str(quantised))
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, dict(metadata))
    file.write_bytes(model.SerializeToString())


@torch.no_grad()
def check_quantised(exported: ExportedNetwork, subnetwork: Subnetwork, batches: Sequence[Tensor]) -> float:
    """The mean cosine of int8 and fp32 embeddings of the calibration images, or an error if it is useless."""
    reference = next(subnetwork.parameters())
    with evaluating(subnetwork):
        cosines = [(exported(b) * subnetwork(b.to(reference)).float().cpu()).sum(1) for b in batches]
    mean = float(torch.cat(cosines).mean())
    if not mean >= LEAST_COSINE:
        raise ExportError(
            f"int8 embeddings have a mean cosine of {mean:.3f} to those in fp32, less than {LEAST_COSINE:g}; "
            "nothing was written: export without int8"
        )
    return mean


@dataclass(frozen=True)
class Int8Cost:
    """Self-test in fp32 and int8, and the cross-test of int8 queries in a gallery indexed in fp32."""

    metric: str
    fp32: float
    int8: float
    int8_in_fp32_gallery: float


def int8_cost(exported: ExportedNetwork, subnetwork: Subnetwork, data: RetrievalData) -> Int8Cost:
    """Compare the int8 file with the subnetwork it came from, by the metric of `data`."""
    encoders: tuple[Encoder, ...] = (subnetwork, exported)
    with evaluating(subnetwork):
        query, gallery = (
            [embed_images(encoder, images, description="measuring int8") for encoder in encoders]
            for images in (data.query, data.gallery)
        )
    matrix = compatibility_matrix(query, gallery, data)
    (fp32, _), (cross, int8) = matrix.values.tolist()
    return Int8Cost(matrix.metric, fp32, int8, cross)
