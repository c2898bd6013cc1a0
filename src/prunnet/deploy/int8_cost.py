"""What int8 costs in retrieval, measured."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from prunnet._progress import track
from prunnet.data import ImageSet, RetrievalData, eval_transform, make_loader
from prunnet.deploy.exported import ExportedNetwork
from prunnet.evaluation import compatibility_matrix
from prunnet.network import Embeddings, Subnetwork
from prunnet.network.modes import evaluating


@dataclass(frozen=True)
class Int8Cost:
    """Self-test in fp32 and int8, and the cross-test of int8 queries in a gallery indexed in fp32."""

    metric: str
    fp32: float
    int8: float
    int8_in_fp32_gallery: float


@torch.no_grad()
def int8_cost(exported: ExportedNetwork, subnetwork: Subnetwork, data: RetrievalData) -> Int8Cost:
    """Compare the int8 file with the subnetwork it came from, by the metric of `data`."""
    device = next(subnetwork.parameters())

    def in_fp32(images: Tensor) -> Tensor:
        return subnetwork(images.to(device)).float().cpu()  # type: ignore[no-any-return]

    def embed(model: Callable[[Tensor], Tensor], images: ImageSet) -> Embeddings:
        loader = make_loader(images, eval_transform(exported.preprocessing))
        vectors = torch.cat([model(batch.images) for batch in track(loader, "measuring int8")])
        return Embeddings(vectors, exported.family_id, exported.capacity)

    with evaluating(subnetwork):
        query = [embed(model, data.query) for model in (in_fp32, exported)]
        gallery = [embed(model, data.gallery) for model in (in_fp32, exported)]
    matrix = compatibility_matrix(query, gallery, data)
    (fp32, _), (cross, int8) = matrix.values.tolist()
    return Int8Cost(matrix.metric, fp32, int8, cross)
