"""What int8 costs in retrieval, measured."""

from dataclasses import dataclass

from prunnet.data import RetrievalData
from prunnet.deploy.export.exported import ExportedNetwork
from prunnet.evaluation import compatibility_matrix, embed_images
from prunnet.evaluation.embedding import Encoder
from prunnet.network import Subnetwork
from prunnet.network.functional import evaluating


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
