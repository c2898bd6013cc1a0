"""The prunable network: any backbone, called with any share of its connections.

A subnetwork is the same module called with other weights, w·r_c(s). No layer is replaced and nothing is modified, so
parameter names, hooks and the dense network stay what they were.
"""

import copy
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunnet.errors import ModuleError, first_line
from prunnet.network import batchnorm
from prunnet.network.aligning import Teacher, aligned_statistics, consensus
from prunnet.network.backbones import Prunable, check_features, prunable_parameters
from prunnet.network.capacity import check_capacities, check_capacity
from prunnet.network.embeddings import Embeddings
from prunnet.network.family import ADAPT_BATCHES, Family
from prunnet.network.functional import embed_batches, embed_with, evaluating, masked
from prunnet.network.preprocessing import Picture, Preprocessing, check_images
from prunnet.network.ranking import RANKINGS, Masks, Ranking
from prunnet.network.selection import Connections, Scores, ScoreStart, Selection
from prunnet.network.subnetwork import EmbeddingHead, Subnetwork, warn_not_adapted

_MASKS_KEPT = 8  # capacities whose masks stay in memory, a byte per connection each


def convert(
    module: nn.Module,
    embedding_dim: int = 256,
    prunable: Prunable | None = None,
    *,
    preprocessing: Preprocessing | None = None,
    ranking: Ranking = "magnitude",
    selection: Selection | None = None,
    score_start: ScoreStart = "random",
) -> "PrunableNetwork":
    """Make `module`, which maps images to features, a network that embeds at any capacity.

    module: any backbone: timm's (`num_classes=0`), torchvision's without classifier, your own. It is used, not copied.
    embedding_dim: length of the embeddings.
    prunable: narrows what can be pruned (default: every Conv2d, Linear and attention projection of the backbone):
        names of layers or parameters, `*` allowed, or a predicate of (layer name, layer).
    preprocessing: how images become input; default: the backbone's own data config.
    ranking: rank connections by |s| ("magnitude") or by s ("signed").
    selection: what a capacity keeps: `prunnet.Connections("protected")`, the default, which spares layers that are
        small and decisive; `prunnet.Connections("measured")`, the default with score_start="magnitude", which spares
        those that turn the features of `module` most when they are pruned; `prunnet.Connections("uniform")`, the same
        share of every layer, as in the paper; or `prunnet.Filters()`, which keeps or drops whole filters by their mean
        score, so that subnetworks can be made physically smaller; a capacity is then a share of the backbone's
        parameters.
    score_start: "random", or "magnitude", which starts scores at |w|: for a module that is trained already.
    """
    if ranking not in RANKINGS:
        raise ModuleError(f"ranking must be one of {', '.join(RANKINGS)}; found {ranking!r}")
    if embedding_dim < 1:
        raise ModuleError(f"embedding_dim must be at least 1; found {embedding_dim}")
    weights = prunable_parameters(module, prunable)
    preprocessing = preprocessing or Preprocessing.of(module)
    head = EmbeddingHead(_feature_count(module, preprocessing), embedding_dim)
    reference = next(iter(weights.values()))
    return PrunableNetwork(module, head.to(reference), weights, preprocessing, ranking, selection, score_start)


@torch.no_grad()
def _feature_count(backbone: nn.Module, preprocessing: Preprocessing) -> int:
    images = torch.zeros(1, *preprocessing.input_size).to(next(backbone.parameters()))
    with evaluating(backbone):
        try:
            features = backbone(images)
        except (RuntimeError, AssertionError, ValueError, IndexError) as error:
            raise ModuleError(
                f"{type(backbone).__name__} does not take images of {preprocessing.input_size} "
                f"({first_line(error)}); pass preprocessing=prunnet.Preprocessing(input_size=...)"
            ) from error
    return check_features(features, backbone).shape[1]


class PrunableNetwork(nn.Module, Family):
    """One network that holds a family: `net(images, capacity=c)` embeds with the connections of the highest scores."""

    kind = "a prunable network"

    def __init__(
        self,
        backbone: nn.Module,
        head: EmbeddingHead,
        weights: Mapping[str, Tensor],
        preprocessing: Preprocessing,
        ranking: Ranking = "magnitude",
        selection: Selection | None = None,
        score_start: ScoreStart = "random",
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.score_start = score_start
        self.scores = Scores(weights, score_start)
        self.preprocessing = preprocessing
        self.ranking: Ranking = ranking
        self.family_id = secrets.token_hex(8)
        self._capacities: tuple[float, ...] = ()
        self.statistics = batchnorm.Statistics()
        self._warned: set[float] = set()
        self._masks: dict[float, Masks] = {}
        self._masks_of: tuple[object, ...] = ()
        trained = score_start == "magnitude"
        self.selection = selection if selection is not None else Connections("measured" if trained else "protected")
        self.selection.attach(self)

    @property
    def capacities(self) -> tuple[float, ...]:
        return self._capacities

    @capacities.setter
    def capacities(self, capacities: Iterable[float]) -> None:
        self._capacities = tuple(capacities)

    @property
    def embedding_dim(self) -> int:
        return self.head.embedding_dim

    def renew(self) -> None:
        super().renew()
        self.forget()

    def forget(self) -> None:
        self.statistics.clear()

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
            embedding = embed_with(
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

    @property
    def connections(self) -> dict[str, int]:
        """How many each prunable layer has, in the order of `scores`."""
        return {name: score.numel() for name, score in self.scores.items()}

    def masks(self, capacity: float) -> Masks:
        """r(s) of Eq. 1: which connections the subnetwork at `capacity` keeps, by parameter name.

        Where whole filters are dropped, their biases and norms are too, so that no constant remains.
        """
        masks: Masks = self.masks_at((capacity,))[0]
        return masks

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def masks_at(self, capacities: Iterable[float]) -> list[Masks]:
        """The masks of several capacities from one selection per layer; kept while the scores stand still."""
        wanted = [check_capacity(capacity) for capacity in capacities]
        scores = [*self.scores.parameters(), *self.selection.parameters()]
        state = (self.ranking, *((score.data_ptr(), score._version) for score in scores))
        if state != self._masks_of:
            self._masks, self._masks_of = {}, state
        missing = [capacity for capacity in dict.fromkeys(wanted) if capacity not in self._masks]
        if missing:
            self._masks.update(zip(missing, self.selection.masks(self, missing), strict=True))
        masks = [self._masks[capacity] for capacity in wanted]
        for oldest in list(self._masks)[:-_MASKS_KEPT]:
            del self._masks[oldest]
        return masks

    def effective_weights(self, capacity: float) -> dict[str, Tensor]:
        """w·r(s), Eq. 1, by parameter name."""
        return masked(self.backbone, self.masks(capacity))

    def statistics_for(self, capacity: float) -> dict[str, Tensor]:
        """Batch-norm buffers for one pass at `capacity`; copies where the pass would write into the dense network's."""
        adapted = self.statistics.get(capacity)
        in_use = batchnorm.layers(self)
        buffers = {**batchnorm.buffers(in_use), **(adapted or {})}
        return {
            name: tensor.clone() if in_use[name.rpartition(".")[0]].training else tensor
            for name, tensor in buffers.items()
        }

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        return self.selection.available(capacities)

    def encode(
        self, images: Sequence[Picture] | Picture, capacity: float | None = None, *, batch_size: int = 64
    ) -> Embeddings:
        """Embed pictures for search with the subnetwork at `capacity` (default: dense), copying no network."""
        capacity = 1.0 if capacity is None else check_capacity(capacity)
        vectors = embed_batches(self, self.preprocessing.batches(images, batch_size), capacity=capacity)
        return Embeddings(vectors, self.family_id, capacity)

    def adapt(
        self,
        loader: Iterable[Any],
        capacities: Iterable[float] | None = None,
        *,
        adapt_batches: int | None = ADAPT_BATCHES,
        align_batches: int = 0,
    ) -> None:
        """align_batches: on so many batches of `loader`, which is read again, embeddings are turned to one another: to
        what the dense network and the members that were trained say together, its own too, if 1 is among `capacities`;
        else to those of the dense network, which stays as it is. Where the dense network was adapted before it becomes
        another one, and the family with it: galleries of the old one refuse its new id.
        """
        wanted = check_capacities((1.0, *self.capacities) if capacities is None else capacities)
        masks = dict(zip(wanted, self.masks_at(wanted), strict=True))
        measured = batchnorm.measured_statistics(self, masks, loader, adapt_batches)
        if 1.0 in measured and self.statistics:
            self.renew()
        self._keep(measured)
        if align_batches and any(capacity < 1.0 for capacity in wanted):
            teacher: Teacher = self
            trained = {capacity: measured[capacity] for capacity in wanted if capacity in self.capacities}
            if trained and 1.0 in measured:
                teacher = consensus(self, masks, {1.0: measured[1.0], **trained})
            else:
                measured.pop(1.0, None)
            self._keep(aligned_statistics(self, masks, measured, teacher, loader, align_batches))

    def _keep(self, statistics: Mapping[float, batchnorm.Buffers]) -> None:
        """Let each capacity have its `statistics`; the dense network's are its buffers."""
        for capacity, buffers in statistics.items():
            if capacity == 1.0:
                batchnorm.put_buffers(self, buffers)
            else:
                running = {n: t for n, t in buffers.items() if not n.endswith("num_batches_tracked")}
                self.statistics.put(capacity, running)

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

    def extra_repr(self) -> str:
        connections = sum(self.connections.values())
        return f"family_id={self.family_id!r}, connections={connections:,} in {len(self.scores)} layers"
