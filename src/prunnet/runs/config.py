"""Everything a training run can be told, checked before anything starts."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from prunnet.data import RetrievalData, load_data
from prunnet.errors import ConfigError
from prunnet.evaluation import Metric
from prunnet.gradients import ConflictAware, Granularity, IntegratorName, Rule
from prunnet.methods import AnyCapacities, PrunNetOptions
from prunnet.methods.capacities import FOUR, Distribution
from prunnet.methods.losses import LossName
from prunnet.methods.method import MethodName
from prunnet.methods.prunnet import Shared
from prunnet.methods.sspl import CODEWORDS, SUBSPACES
from prunnet.network.allocation import AllocationName
from prunnet.network.capacity import check_capacities
from prunnet.network.family import ADAPT_BATCHES, ALIGN_BATCHES
from prunnet.network.ranking import Ranking
from prunnet.network.selection import ScoreStart, SelectionName

LEARNING_RATES = {(False, False): 0.1, (False, True): 0.005, (True, False): 1e-3, (True, True): 1e-4}
"""By whether the optimiser is AdamW, and whether the weights are trained already."""

SCORE_TRAVEL = {"random": 500.0, "magnitude": 50.0}
"""The sum over training of the scores' learning rates, by their start.

With weight decay λ and momentum μ a sum S leaves exp(−S·λ/(1−μ)) of the start: 8 % of a random one at the defaults and
78 % of one that knows something, however long the training is.
"""


class TrainConfig(BaseModel):
    """The settings of one run. Every field is a key of `--set`, of the YAML file and of `prunnet.train`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # data
    data: str = Field("glyphs", description="built-in or benchmark name, folder or manifest (prunnet data list)")
    root: str | None = Field(None, description="where a benchmark lies on disk")
    data_options: dict[str, Any] = Field({}, description="options of the data set")
    augmentation: dict[str, Any] = Field({}, description="options of the training transform; default: the data set's")
    classes_per_batch: int | None = Field(None, gt=0, description="P of class-balanced P×K batches; default: shuffled")
    images_per_class: int = Field(4, gt=0, description="K of class-balanced batches")
    workers: int = Field(0, ge=0, description="processes that load images")
    cache: bool = Field(True, description="keep decoded images in memory as far as they fit")
    strict: bool = Field(False, description="stop at an unreadable image instead of reporting and skipping it")

    # network
    backbone: str = Field("resnet18", description="name of a timm model")
    backbone_options: dict[str, Any] = Field({}, description="options of timm.create_model")
    weights: str | None = Field(None, description="safetensors file to start the backbone from")
    pretrained: bool = Field(False, description="start from the weights that timm has for the backbone")
    input_size: tuple[int, int, int] | None = Field(
        None, description="channels, height, width; default: the backbone's"
    )
    embedding_dim: int = Field(256, gt=0)
    ranking: Ranking = Field("magnitude", description="rank connections by |s| or by s")
    selection: SelectionName = Field(
        "connections", description="what a capacity keeps; of filters, which go whole, it is a share of the parameters"
    )
    allocation: AllocationName = Field(
        "protected",
        description="how a capacity is divided among layers: protected spares small, decisive ones; measured, default "
        "with weights or pretrained, those that trained features depend on; uniform none",
    )
    score_start: ScoreStart = Field(
        "random",
        description="scores start at random, or at the magnitude of the weights; with weights or pretrained so",
    )
    batchnorm: Literal["train", "frozen", "synced"] = Field("train", description="statistics while training")

    # method
    method: MethodName = Field("prunnet", description="what is trained; docs/methods.md describes each")
    old: str | None = Field(None, description="run to be compatible with: sspl and bct add members to its family")
    capacities: tuple[float, ...] | Literal["any"] = Field(
        "any", description=f"fixed list, or 'any'; where any cannot be: {', '.join(map(str, FOUR))}"
    )
    smallest: float = Field(AnyCapacities.smallest, gt=0, lt=1, description="smallest capacity of 'any'")
    random_capacities: int = Field(AnyCapacities.random, ge=0, description="random capacities per step of 'any'")
    distribution: Distribution = Field(AnyCapacities.distribution, description="how 'any' draws")
    integrator: IntegratorName = "conflict-aware"
    alpha: float = Field(ConflictAware.alpha, ge=0, description="exponent of Eq. 5")
    rule: Rule = Field(ConflictAware.rule, description="Algorithm 1, or the authors' code")
    granularity: Granularity = ConflictAware.granularity
    normalise_step: bool = Field(
        PrunNetOptions.normalise_step,
        description="divide out the factor N+1 of integrators that sum; default with weights or pretrained: false",
    )
    shared: Shared = Field(PrunNetOptions.shared, description="gradient of norms, head, classifier")
    loss: LossName = PrunNetOptions.loss
    label_smoothing: float = Field(PrunNetOptions.label_smoothing, ge=0, lt=1)
    distillation: float = Field(
        PrunNetOptions.distillation, ge=0, description="weight of following the dense network's soft output"
    )
    frozen_scores: bool = PrunNetOptions.frozen_scores
    frozen_weights: bool = PrunNetOptions.frozen_weights
    subspaces: int = Field(SUBSPACES, gt=0, description="subspaces of SSPL's product quantiser")
    codewords: int = Field(CODEWORDS, gt=1, description="anchors in each of SSPL's subspaces")
    clip_passes: float | None = Field(
        PrunNetOptions.clip_passes, gt=0, description="largest gradient norm of one subnetwork"
    )

    # optimisation
    epochs: int = Field(10, gt=0)
    batch_size: int = Field(32, gt=1, description="images per step on all devices together")
    accumulate: int = Field(1, gt=0, description="micro-batches per step")
    optimiser: Literal["sgd", "adamw"] = "sgd"
    lr: float = Field(0.1, gt=0, description="default with weights or pretrained 0.005; with AdamW 0.001 and 0.0001")
    score_lr: float | None = Field(
        None,
        gt=0,
        description="learning rate of the scores, relative to the weights'; default: from the length of training",
    )
    score_decay: float | None = Field(None, ge=0, description="weight decay of the scores; default: the weights'")
    norm_decay: float = Field(0.0, ge=0, description="weight decay of norms and biases")
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    schedule: Literal["constant", "multistep", "cosine"] = "cosine"
    milestones: tuple[int, ...] = Field((), description="epochs at which multistep multiplies by gamma")
    gamma: float = Field(0.1, gt=0)
    warmup_epochs: float = Field(0, ge=0)
    cosine_from: int = Field(0, ge=0, description="epoch at which cosine starts to fall")
    clip: float | None = Field(None, gt=0, description="largest norm of the whole gradient")
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    compile: bool = Field(False, description="torch.compile the passes")

    # run
    seed: int = Field(0, ge=0, lt=2**32)
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1 …")
    evaluate_every: int = Field(0, ge=0, description="epochs between evaluations; 0: only at the end")
    evaluate_capacities: tuple[float, ...] = Field((), description="default: 1 and those trained")
    metric: str | None = Field(None, description="default: the data set's own")
    adapt_batches: int | None = Field(
        ADAPT_BATCHES, gt=0, description="batches of adaptive BN; null: the whole training set"
    )
    align_batches: int = Field(
        ALIGN_BATCHES, ge=0, description="batches that turn the embeddings of all members to one another; 0: none"
    )
    checkpoint_seconds: float = Field(
        120.0, ge=0, description="time between checkpoints; always at the end of an epoch"
    )
    tensorboard: bool = False

    @model_validator(mode="before")
    @classmethod
    def _dependent_defaults(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """What docs/what-to-train-with.md found best holds for PrunNet's single connections under SGD."""
        connections = settings.get("selection", "connections") == "connections"
        any_capacity = connections and settings.get("method", "prunnet") in ("prunnet", "dense")
        trained = settings.get("weights") is not None or bool(settings.get("pretrained"))
        spared = "measured" if trained and any_capacity else "protected"
        return {
            "capacities": "any" if any_capacity else FOUR,
            "lr": LEARNING_RATES[settings.get("optimiser", "sgd") == "adamw", trained],
            "allocation": spared if connections else "uniform",
            "score_start": "magnitude" if trained else "random",
            "normalise_step": not trained,
            **settings,
        }

    @model_validator(mode="after")
    def _whole_batches(self) -> "TrainConfig":
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size {self.batch_size} must be a multiple of accumulate {self.accumulate}")
        if self.batch_size // self.accumulate < 2:
            raise ValueError(
                f"accumulate {self.accumulate} leaves micro-batches of one image, which batch norm cannot take"
            )
        if self.classes_per_batch and self.classes_per_batch * self.images_per_class != self.batch_size:
            raise ValueError(
                f"batch_size {self.batch_size} must be classes_per_batch × images_per_class "
                f"({self.classes_per_batch} × {self.images_per_class})"
            )
        return self

    @model_validator(mode="after")
    def _method_fits(self) -> "TrainConfig":
        if self.method in ("sspl", "bct") and self.old is None:
            raise ValueError(
                f"method {self.method} adds networks to the family of an existing run: name it, old=runs/a"
            )
        if self.method == "independent" and self.old is not None:
            raise ValueError("independent networks are compatible with nothing, so old= has no meaning; use method=bct")
        if self.loss == "contrastive" and self.method not in ("prunnet", "switchnet"):
            raise ValueError(
                f"the contrastive loss is one of prunnet and switchnet; method {self.method} has no use for it"
            )
        if self.old is not None and (self.method == "sfsc" or self.loss == "contrastive"):
            raise ValueError(
                "old= has the old classifier recognise every new network, which sfsc and the contrastive loss have no "
                "place for; use prunnet, switchnet, joint or dense with another loss"
            )
        if self.method not in ("prunnet", "dense") and self.capacities == "any":
            raise ValueError(f"method {self.method} needs a list of capacities; only prunnet trains any")
        return self

    @model_validator(mode="after")
    def _complete(self) -> "TrainConfig":
        if self.schedule == "multistep" and not self.milestones:
            raise ValueError("schedule multistep needs milestones")
        if self.selection != "connections" and self.allocation != "uniform":
            raise ValueError(f"allocation {self.allocation} goes with selection connections, not {self.selection}")
        if self.selection == "maps" and self.capacities == "any":
            raise ValueError("selection maps needs a list of capacities: each has a score map of its own")
        if self.metric is not None:
            Metric.parse(self.metric)
        check_capacities(self.evaluate_capacities)
        if self.pretrained and self.weights is not None:
            raise ValueError("pretrained takes timm's weights, weights those of a file: choose one")
        return self

    def lr_factor(self, epoch: float) -> float:
        """What the learning rate is multiplied with at `epoch`, such as 2.5 in the middle of the third."""
        if epoch < self.warmup_epochs:
            return max(epoch, 1e-3) / self.warmup_epochs
        if self.schedule == "multistep":
            return float(self.gamma ** sum(epoch >= milestone for milestone in self.milestones))
        if self.schedule == "cosine":
            start = max(self.cosine_from, self.warmup_epochs)
            progress = max(0.0, epoch - start) / max(1e-9, self.epochs - start)
            return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return 1.0

    def relative_score_lr(self, steps_per_epoch: int) -> float:
        """The learning rate of the scores over that of the weights.

        A score moves by the gradient times the weight, which is slow. How far scores come depends on the sum of their
        rates over training, so it is that which is set: a long training gets slower scores, not more forgetful ones.
        """
        if self.score_lr is not None:
            return self.score_lr
        if self.optimiser != "sgd" or self.selection != "connections":
            return 1.0
        steps = steps_per_epoch * self.epochs
        travelled = sum(self.lr * self.lr_factor(step / steps_per_epoch) for step in range(steps))
        return SCORE_TRAVEL[self.score_start] / travelled

    def load_data(self) -> RetrievalData:
        """The data that these settings name."""
        return load_data(self.data, root=self.root, cache=self.cache, **self.data_options)


def resolve(*layers: Mapping[str, Any]) -> TrainConfig:
    """One configuration from several, later ones winning."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key in layer:
            _check_key(key)
        merged.update(layer)
    try:
        return TrainConfig(**merged)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][:1]))
        problem = first["msg"].removeprefix("Value error, ")
        message = f"{where}: {problem}; found {first['input']!r}" if where else problem
        raise ConfigError(message) from None


def _check_key(key: str) -> None:
    if key not in TrainConfig.model_fields:
        near = get_close_matches(key, TrainConfig.model_fields, n=1, cutoff=0.0)
        raise ConfigError(
            f"there is no setting {key!r}; the nearest is {near[0]!r} (prunnet train --settings lists all)"
        )
