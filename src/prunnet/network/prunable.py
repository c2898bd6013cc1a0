"""The prunable network: any backbone, called with any share of its connections.

A subnetwork is the same module called with other weights, w·r_c(s). No layer is replaced and nothing is modified, so
parameter names, hooks and the dense network stay what they were.
"""

import copy
import secrets
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunnet.errors import ModuleError
from prunnet.network import batchnorm
from prunnet.network.backbones import Prunable, check_features, prunable_parameters
from prunnet.network.capacity import check_capacity
from prunnet.network.functional import embed
from prunnet.network.head import EmbeddingHead
from prunnet.network.modes import evaluating
from prunnet.network.preprocessing import Preprocessing, check_images
from prunnet.network.ranking import Masks, Ranking, rank
from prunnet.network.scores import Scores
from prunnet.network.structure import Structure
from prunnet.network.subnetwork import Subnetwork, warn_not_adapted

_MASKS_KEPT = 8  # capacities whose masks stay in memory, a byte per connection each


def convert(
    module: nn.Module,
    embedding_dim: int = 256,
    prunable: Prunable | None = None,
    *,
    preprocessing: Preprocessing | None = None,
    ranking: Ranking = "magnitude",
    structured: bool = False,
) -> "PrunableNetwork":
    """Make `module`, which maps images to features, a network that embeds at any capacity.

    module: any backbone: timm's (`num_classes=0`), torchvision's without classifier, your own. It is used, not copied.
    embedding_dim: length of the embeddings.
    prunable: narrows what can be pruned (default: every Conv2d, Linear and attention projection of the backbone):
        names of layers or parameters, `*` allowed, or a predicate of (layer name, layer).
    preprocessing: how images become input; default: the backbone's own data config.
    ranking: rank connections by |s| ("magnitude") or by s ("signed").
    structured: keep or drop whole filters, by their mean score; a capacity is then a share of the backbone's parameters
        (at most), and `prunnet.deploy.structured_subnetwork` makes its subnetworks physically smaller.
    """
    if ranking not in ("magnitude", "signed"):
        raise ModuleError(f"ranking must be 'magnitude' or 'signed'; found {ranking!r}")
    if embedding_dim < 1:
        raise ModuleError(f"embedding_dim must be at least 1; found {embedding_dim}")
    weights = prunable_parameters(module, prunable)
    preprocessing = preprocessing or Preprocessing.of(module)
    head = EmbeddingHead(_feature_count(module, preprocessing), embedding_dim)
    reference = next(iter(weights.values()))
    network = PrunableNetwork(module, head.to(reference), weights, preprocessing, ranking, structured)
    if structured:
        _ = network.structure  # found once, here, so that a backbone without removable filters is refused at once
    return network


@torch.no_grad()
def _feature_count(backbone: nn.Module, preprocessing: Preprocessing) -> int:
    images = torch.zeros(1, *preprocessing.input_size).to(next(backbone.parameters()))
    with evaluating(backbone):
        try:
            features = backbone(images)
        except (RuntimeError, AssertionError, ValueError, IndexError) as error:
            raise ModuleError(
                f"{type(backbone).__name__} does not take images of {preprocessing.input_size} "
                f"({str(error).splitlines()[0]}); pass preprocessing=prunnet.Preprocessing(input_size=...)"
            ) from error
    return check_features(features, backbone).shape[1]


class PrunableNetwork(nn.Module):
    """One network that holds a family: `net(images, capacity=c)` embeds with the top-c connections of every layer."""

    def __init__(
        self,
        backbone: nn.Module,
        head: EmbeddingHead,
        weights: Mapping[str, Tensor],
        preprocessing: Preprocessing,
        ranking: Ranking = "magnitude",
        structured: bool = False,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.scores = Scores(weights)
        self.preprocessing = preprocessing
        self.ranking: Ranking = ranking
        self.structured = structured
        self.family_id = secrets.token_hex(8)
        self.capacities: tuple[float, ...] = ()  # those it was trained at
        self.statistics = batchnorm.Statistics()
        self._warned: set[float] = set()
        self._masks: dict[float, Masks] = {}
        self._masks_of: tuple[object, ...] = ()

    def forward(self, images: Tensor, capacity: float = 1.0, *, normalise: bool = True) -> Tensor:
        """Embed preprocessed images `[N, C, H, W]`: L2-normalised for search, or raw (`normalise=False`) for losses."""
        capacity = check_capacity(capacity)
        check_images(images, self.preprocessing)
        if capacity == 1.0:
            embedding = self.head(check_features(self.backbone(images), self.backbone))
        else:
            if not self.training and capacity not in self.statistics and capacity not in self._warned:
                self._warned.add(capacity)
                warn_not_adapted(capacity, self.family_id)
            embedding = embed(
                self.backbone,
                self.head,
                images,
                weights=self.effective_weights(capacity),
                statistics=self.statistics_for(capacity),
            )
        return F.normalize(embedding, dim=1) if normalise else embedding

    @property
    def weights(self) -> dict[str, nn.Parameter]:
        """The prunable weights by parameter name, in the order of `scores`."""
        return {name: self.backbone.get_parameter(name) for name in self.scores}

    @cached_property
    def structure(self) -> Structure:
        """The filters that can be dropped, and which must go together; asks for torch-pruning."""
        return Structure(self)

    def masks(self, capacity: float) -> Masks:
        """r(s) of Eq. 1: which connections the subnetwork at `capacity` keeps, by parameter name.

        A structured subnetwork drops biases and norms along with their filters, so that no constant remains.
        """
        masks: Masks = self.masks_at((capacity,))[0]
        return masks

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def masks_at(self, capacities: Iterable[float]) -> list[Masks]:
        """The masks of several capacities from one selection per layer; kept while the scores stand still."""
        wanted = [check_capacity(capacity) for capacity in capacities]
        scores = dict(self.scores.items())
        state = (self.ranking, *((score.data_ptr(), score._version) for score in scores.values()))
        if state != self._masks_of:
            self._masks, self._masks_of = {}, state
        missing = [capacity for capacity in dict.fromkeys(wanted) if capacity not in self._masks]
        if missing:
            self._masks.update(zip(missing, self._rank(scores, missing), strict=True))
        masks = [self._masks[capacity] for capacity in wanted]
        for oldest in list(self._masks)[:-_MASKS_KEPT]:
            del self._masks[oldest]
        return masks

    def _rank(self, scores: Mapping[str, Tensor], capacities: list[float]) -> list[Masks]:
        if not self.structured:
            return rank(scores, capacities, self.ranking)  # type: ignore[no-any-return]
        ranked = self.structure.rank(scores, self.ranking)
        device = next(iter(scores.values())).device
        return [self.structure.masks(self.structure.width_for(capacity), ranked, device) for capacity in capacities]

    def effective_weights(self, capacity: float) -> dict[str, Tensor]:
        """w·r(s), Eq. 1, by parameter name."""
        return {name: self.backbone.get_parameter(name) * mask for name, mask in self.masks(capacity).items()}

    def statistics_for(self, capacity: float) -> dict[str, Tensor]:
        """Batch-norm buffers for one pass at `capacity`; copies where the pass would write into the dense network's."""
        adapted = self.statistics.get(capacity)
        in_use = batchnorm.layers(self)
        buffers = {**batchnorm.buffers(in_use), **(adapted or {})}
        return {
            name: tensor.clone() if in_use[name.rpartition(".")[0]].training else tensor
            for name, tensor in buffers.items()
        }

    def subnetwork(self, capacity: float) -> Subnetwork:
        """A plain module of the subnetwork at `capacity`, independent of this network, in evaluation mode."""
        capacity = check_capacity(capacity)
        backbone, head = copy.deepcopy(self.backbone), copy.deepcopy(self.head)
        adapted = capacity == 1.0 or capacity in self.statistics
        subnetwork = Subnetwork(
            backbone,
            head,
            capacity=capacity,
            family_id=self.family_id,
            preprocessing=self.preprocessing,
            adapted=adapted,
        )
        with torch.no_grad():
            for name, mask in self.masks(capacity).items():
                backbone.get_parameter(name).mul_(mask)
            for name, tensor in (self.statistics.get(capacity) or {}).items():
                subnetwork.get_buffer(name).copy_(tensor)
        return subnetwork.eval()

    def _apply(self, fn: Any, recurse: bool = True) -> "PrunableNetwork":
        self.statistics.apply(fn)
        return super()._apply(fn, recurse)  # type: ignore[no-any-return,no-untyped-call]

    def extra_repr(self) -> str:
        connections = sum(score.numel() for score in self.scores.values())
        return f"family_id={self.family_id!r}, connections={connections:,} in {len(self.scores)} layers"
