"""From a configuration to the objects of a run."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from prunnet.data import ClassBalancedSampler, EpochSampler, ImageSet, ShuffledSampler
from prunnet.errors import ConfigError
from prunnet.gradients import Integrator, PCGrad, create_integrator
from prunnet.methods import (
    SFSC,
    SSPL,
    AnyCapacities,
    Dense,
    FixedCapacities,
    Independent,
    Joint,
    Method,
    PrunNet,
    PrunNetOptions,
    SwitchNet,
)
from prunnet.narrow import Members, SlimmableNetwork
from prunnet.narrow.narrowing import initialise, narrow
from prunnet.network import (
    Connections,
    Preprocessing,
    PrunableNetwork,
    ScoreMaps,
    Selection,
    batchnorm,
    convert,
    create_backbone,
)
from prunnet.network.selection import Scores
from prunnet.runs import Run, TrainConfig
from prunnet.structured import Filters
from prunnet.training.ranks import Ranks

_AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def build_network(config: TrainConfig) -> PrunableNetwork:
    """The prunable network of `config`, initialised from its seed."""
    torch.manual_seed(config.seed)
    backbone = _backbone(config)
    if config.weights is not None:
        _load_weights(backbone, Path(config.weights))
    preprocessing = None if config.input_size is None else _resized(backbone, config.input_size)
    return convert(
        backbone,
        config.embedding_dim,
        preprocessing=preprocessing,
        ranking=config.ranking,
        selection=build_selection(config),
        score_start=config.score_start,
    )


def _backbone(config: TrainConfig) -> nn.Module:
    try:
        return create_backbone(config.backbone, pretrained=config.pretrained, **config.backbone_options)
    except (OSError, RuntimeError) as error:
        if not config.pretrained:
            raise
        raise ConfigError(
            f"pretrained: timm has no weights of {config.backbone} at hand and cannot fetch them "
            f"({str(error).splitlines()[0]}); weights= takes a file"
        ) from None


def build_selection(config: TrainConfig) -> Selection:
    """What a capacity keeps."""
    match config.selection:
        case "connections":
            return Connections(config.allocation)
        case "filters":
            return Filters()
        case "maps":
            return ScoreMaps(_listed(config))


def _resized(backbone: nn.Module, input_size: tuple[int, int, int]) -> Preprocessing:
    """The backbone's own normalisation at another size, uncropped."""
    own = Preprocessing.of(backbone)
    same = own.input_size[0] == input_size[0]
    return Preprocessing(input_size, own.mean if same else (), own.std if same else (), own.interpolation, 1.0)


def _load_weights(backbone: nn.Module, file: Path) -> None:
    try:
        fit = backbone.load_state_dict({n: t.float() for n, t in load_file(file).items()}, strict=False)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ConfigError(
            f"weights: {file} cannot be loaded into the backbone ({str(error).splitlines()[-1]})"
        ) from None
    if fit.missing_keys:
        raise ConfigError(f"weights: {file} lacks {fit.missing_keys[0]} of the backbone")


def build_integrator(config: TrainConfig) -> Integrator:
    """The integrator that `config` names."""
    return create_integrator(config.integrator, alpha=config.alpha, rule=config.rule, granularity=config.granularity)


def build_method(config: TrainConfig, network: PrunableNetwork, train: ImageSet, old: Run | None = None) -> Method:
    """The method of `config`, which trains `network` or narrower networks made like it."""
    torch.manual_seed(config.seed + 1)  # the classifier's start does not depend on how the network was made
    autocast = _AUTOCAST[config.precision]
    loss: Mapping[str, Any] = {"loss": config.loss, "label_smoothing": config.label_smoothing}
    match config.method:
        case "dense":
            method: Method = Dense(network, train.classes, **loss, autocast=autocast, compile=config.compile)
        case "prunnet":
            method = _build_prunnet(config, network, train.classes)
        case "independent":
            members = _members(config, network, (1.0, *_listed(config)), compatible=False)
            method = Independent(members, train.classes, **loss, autocast=autocast)
        case "joint":
            members = _members(config, network, (1.0, *_listed(config)))
            method = Joint(members, train.classes, **loss, autocast=autocast)
        case "switchnet" | "sfsc":
            slimmable = SlimmableNetwork(network.subnetwork(1.0), _listed(config))
            method = {"switchnet": SwitchNet, "sfsc": SFSC}[config.method](
                slimmable,
                train.classes,
                **loss,
                integrator=PCGrad() if config.method == "sfsc" else build_integrator(config),
                normalise_step=config.normalise_step,
                seed=config.seed,
                autocast=autocast,
            )
        case "sspl":
            members = _members(config, network, _listed(config), old)
            method = SSPL(members, subspaces=config.subspaces, codewords=config.codewords, autocast=autocast)
        case "bct":
            members = _members(config, network, _listed(config), old)
            method = Independent(members, train.classes, **loss, autocast=autocast)
    if old is not None and config.method != "sspl":
        _make_compatible(method, old, train)
    return method


def _build_prunnet(config: TrainConfig, network: PrunableNetwork, classes: int) -> PrunNet:
    capacities = (
        AnyCapacities(config.smallest, config.random_capacities, config.distribution)
        if config.capacities == "any"
        else FixedCapacities(config.capacities)
    )
    options = PrunNetOptions(
        capacities=capacities,
        integrator=build_integrator(config),
        **{
            name: getattr(config, name)
            for name in PrunNetOptions.__dataclass_fields__
            if name not in ("capacities", "integrator")
        },
    )
    autocast = _AUTOCAST[config.precision]
    return PrunNet(network, classes, options, seed=config.seed, autocast=autocast, compile=config.compile)


def _listed(config: TrainConfig) -> tuple[float, ...]:
    assert config.capacities != "any"  # refused by the configuration
    return FixedCapacities(config.capacities).capacities


def _members(
    config: TrainConfig,
    network: PrunableNetwork,
    capacities: Iterable[float],
    old: Run | None = None,
    *,
    compatible: bool = True,
) -> Members:
    """Networks of width √c, each initialised afresh unless there are weights to start from."""
    dense = network.subnetwork(1.0)
    members = [dense if capacity == 1.0 else narrow(dense, capacity)[0] for capacity in capacities]
    if config.weights is None and not config.pretrained:
        for member in members:
            if member is not dense:
                initialise(member.backbone)
                member.head.reset_parameters()
    return Members(members, None if old is None else old.network, compatible=compatible)


def _make_compatible(method: Method, old: Run, train: ImageSet) -> None:
    """Let the old classifier have a say in every loss of `method`."""
    classifier, classes = old.classifier_for(train)
    wanted = method.family.embedding_dim
    if classifier.in_features != wanted:
        raise ConfigError(f"old: its embeddings have {classifier.in_features} dimensions, those to train {wanted}")
    method.hear(classifier, classes)


def prepare_batchnorm(config: TrainConfig, method: Method) -> Method:
    """Put `method` into training mode with the batch norm that `config` asks for."""
    method.train()
    if config.batchnorm == "frozen":
        for layer in batchnorm.layers(method).values():
            layer.eval()
    return method


def build_sampler(config: TrainConfig, train: ImageSet, ranks: Ranks) -> EpochSampler:
    """Batches of the training set, this rank's share of each."""
    share = (config.seed, ranks.rank, ranks.size)
    if config.classes_per_batch:
        return ClassBalancedSampler(train.labels, config.classes_per_batch, config.images_per_class, *share)
    return ShuffledSampler(len(train), config.batch_size, *share)


def build_optimiser(config: TrainConfig, method: Method, steps_per_epoch: int) -> Optimizer:
    """SGD or AdamW over all parameters that learn; norms and biases decay on their own, scores have their own rate."""
    norms_and_biases = method.norms_and_biases()
    scores = {p for part in method.modules() if isinstance(part, Scores) for p in part.parameters()}
    learning = [parameter for parameter in method.parameters() if parameter.requires_grad]
    score_lr = config.relative_score_lr(steps_per_epoch)
    score_decay = config.weight_decay if config.score_decay is None else config.score_decay
    groups = [
        {
            "params": [p for p in learning if p not in norms_and_biases and p not in scores],
            "weight_decay": config.weight_decay,
        },
        {"params": [p for p in learning if p in norms_and_biases], "weight_decay": config.norm_decay},
        {"params": [p for p in learning if p in scores], "weight_decay": score_decay, "relative_lr": score_lr},
    ]
    groups = [{"relative_lr": 1.0, **group} for group in groups if group["params"]]
    if config.optimiser == "adamw":
        return AdamW(groups, lr=config.lr)
    return SGD(groups, lr=config.lr, momentum=config.momentum)
