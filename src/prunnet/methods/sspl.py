"""Structure similarity preservation (SSPL): small networks see the dense network's space through the same anchors.

A product quantiser of the dense embeddings gives anchors in every subspace. A small network's similarities to them must
be distributed as the dense network's are. No label is used.
"""

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from prunnet.errors import PrunNetError
from prunnet.methods.summed_losses import SummedLosses
from prunnet.narrow.members import Members
from prunnet.network.functional import evaluating

SUBSPACES, CODEWORDS = 8, 64
TEMPERATURE = 0.1


class SSPL(SummedLosses):
    """Trains `members` beside the family they extend, whose dense network stays as it is."""

    def __init__(
        self,
        members: Members,
        *,
        subspaces: int = SUBSPACES,
        codewords: int = CODEWORDS,
        autocast: torch.dtype | None = None,
    ) -> None:
        super().__init__(autocast)
        if members.base is None:
            raise PrunNetError("SSPL aligns networks with an existing family: name its run, old=runs/a")
        if members.embedding_dim % subspaces:
            raise PrunNetError(f"{members.embedding_dim} dimensions cannot be cut into {subspaces} equal subspaces")
        self.members = members
        device = next(members.parameters()).device
        self.teacher = members.base.subnetwork(1.0).to(device).requires_grad_(False)
        self.anchors: Tensor
        shape = (subspaces, codewords, members.embedding_dim // subspaces)
        self.register_buffer("anchors", torch.zeros(shape, device=device))

    @property
    def family(self) -> Members:
        return self.members

    @torch.no_grad()
    def prepare(self, batches: Iterable[Tensor]) -> None:
        """Quantise the dense embeddings of the training images."""
        device = next(self.teacher.parameters()).device
        with evaluating(self.teacher):
            embeddings = torch.cat([self.teacher(images.to(device)) for images in batches])
        for anchors, part in zip(self.anchors, embeddings.chunk(len(self.anchors), dim=1), strict=True):
            anchors.copy_(k_means(part, len(anchors)))

    def train(self, mode: bool = True) -> "SSPL":
        super().train(mode)
        self.teacher.eval()
        return self

    def losses(self, images: Tensor, labels: Tensor) -> Iterator[tuple[str, Tensor]]:  # noqa: ARG002
        with torch.no_grad():
            wanted = self.structure(self.teacher(images))
        for capacity, member in self.members.by_capacity.items():
            structure = self.structure(member(images))
            yield f"{capacity:g}", F.kl_div(structure, wanted, reduction="batchmean", log_target=True)

    def structure(self, embeddings: Tensor) -> Tensor:
        """Log-distributions of the similarities to the anchors, a row per image and subspace."""
        parts = embeddings.float().view(len(embeddings), len(self.anchors), -1)
        similarities = torch.einsum("nsd,skd->nsk", parts, self.anchors)
        return F.log_softmax(similarities / TEMPERATURE, dim=2).flatten(0, 1)


def k_means(vectors: Tensor, centroids: int, iterations: int = 25) -> Tensor:
    """Lloyd's algorithm from randomly chosen vectors, always the same ones; an empty cluster keeps its centroid."""
    if len(vectors) < centroids:
        raise PrunNetError(f"{len(vectors)} images are too few for {centroids} anchors per subspace")
    start = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:centroids]
    centres = vectors[start.to(vectors.device)].clone()
    for _ in range(iterations):
        nearest = torch.cdist(vectors, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, vectors)
        counts = torch.bincount(nearest, minlength=centroids)[:, None]
        centres = torch.where(counts > 0, sums / counts.clamp_min(1), centres)
    return centres
