"""From a configuration to the objects of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from prunnet.data import ClassBalancedSampler, EpochSampler, ImageSet, ShuffledSampler
from prunnet.gradients import ConflictAware, Direct, Integrator, Mean, Pareto, PCGrad, Sum
from prunnet.methods import AnyCapacities, Dense, FixedCapacities, Method, PrunNet, PrunNetOptions
from prunnet.network import Preprocessing, PrunableNetwork, batchnorm, convert, create_backbone
from prunnet.training.config import ConfigError, TrainConfig
from prunnet.training.ranks import Ranks

_AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def build_network(config: TrainConfig) -> PrunableNetwork:
    """The prunable network of `config`, initialised from its seed."""
    torch.manual_seed(config.seed)
    backbone = create_backbone(config.backbone, **config.backbone_options)
    if config.weights is not None:
        _load_weights(backbone, Path(config.weights))
    preprocessing = None if config.input_size is None else _resized(backbone, config.input_size)
    return convert(backbone, config.embedding_dim, preprocessing=preprocessing, ranking=config.ranking)


def _resized(backbone: nn.Module, input_size: tuple[int, int, int]) -> Preprocessing:
    """The backbone's own normalisation at another size, uncropped."""
    own = Preprocessing.of(backbone)
    same = own.input_size[0] == input_size[0]
    return Preprocessing(input_size, own.mean if same else (), own.std if same else (), own.interpolation, 1.0)


def _load_weights(backbone: nn.Module, file: Path) -> None:
    try:
        found = backbone.load_state_dict({n: t.float() for n, t in load_file(file).items()}, strict=False)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ConfigError(
            f"weights: {file} cannot be loaded into the backbone ({str(error).splitlines()[-1]})"
        ) from None
    if found.missing_keys:
        raise ConfigError(f"weights: {file} lacks {found.missing_keys[0]} of the backbone")


def build_integrator(config: TrainConfig) -> Integrator:
    """The integrator that `config` names."""
    return {
        "conflict-aware": lambda: ConflictAware(config.alpha, config.rule, config.granularity),
        "direct": lambda: Direct(config.granularity),
        "sum": Sum,
        "mean": Mean,
        "pareto": Pareto,
        "pcgrad": PCGrad,
    }[config.integrator]()


def build_method(config: TrainConfig, network: PrunableNetwork, classes: int) -> Dense | PrunNet:
    """The method of `config` around `network`."""
    torch.manual_seed(config.seed + 1)  # the classifier's start does not depend on how the network was made
    common: Mapping[str, Any] = {"autocast": _AUTOCAST[config.precision], "compile": config.compile}
    if config.method == "dense":
        return Dense(network, classes, loss=config.loss, label_smoothing=config.label_smoothing, **common)
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
    return PrunNet(network, classes, options, seed=config.seed, **common)


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


def build_optimiser(config: TrainConfig, method: Method) -> Optimizer:
    """SGD or AdamW over all parameters that learn; biases and norms do not decay."""
    undecayed = method.undecayed()
    learning = [parameter for parameter in method.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in learning if p not in undecayed], "weight_decay": config.weight_decay},
        {"params": [p for p in learning if p in undecayed], "weight_decay": 0.0},
    ]
    if config.optimiser == "adamw":
        return AdamW(groups, lr=config.lr)
    return SGD(groups, lr=config.lr, momentum=config.momentum)
