"""The networks that times are measured with, untrained but where there are weights."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

import prunnet
from prunnet.network.allocation import AllocationName


def network(
    backbone: str, capacities: Sequence[float], allocation: AllocationName = "uniform", weights: Path | None = None
) -> prunnet.PrunableNetwork:
    """Always the same, with batch norms adapted to `capacities`.

    allocation: "protected" is the default of `prunnet.convert`; with "uniform" every layer keeps the same share, so
        that a capacity is the share of the multiplications too, but stems of mobile networks and depthwise
        convolutions, some 3 % of the connections, are kept whole.
    weights: a file, without which "measured" says nothing.
    """
    torch.manual_seed(0)
    module = prunnet.create_backbone(backbone)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5)  # timm's residual branches start at zero, which converters remove
    if weights is not None:
        stored = {name: tensor.float() for name, tensor in load_file(weights).items()}
        fit = module.load_state_dict(stored, strict=False)
        assert not fit.missing_keys, f"{weights} lacks {fit.missing_keys[0]} of {backbone}"
    selection = prunnet.Connections(allocation)
    net = prunnet.convert(
        module,
        prunable=_larger if allocation == "uniform" else None,
        selection=selection,
        score_start="random" if weights is None else "magnitude",
    )
    torch.manual_seed(1)
    prunnet.adapt_batchnorm(net, [torch.randn(2, *net.preprocessing.input_size)], capacities=(*capacities, 1.0))
    return net.eval()


def _larger(name: str, layer: nn.Module) -> bool:
    return not (isinstance(layer, nn.Conv2d) and (layer.groups == layer.in_channels or name.endswith("conv_stem")))
