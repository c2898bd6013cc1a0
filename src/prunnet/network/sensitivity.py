"""How much each prunable layer matters to weights that are trained: how far the features turn when it alone is pruned.

A layer that keeps the share s of its n connections loses about a/s. All layers together lose least for what they keep
if s is in proportion to √(a/n), which is what an allocation takes for sensitivity.
"""

import copy
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from prunnet._progress import track
from prunnet.network import batchnorm
from prunnet.network.ranking import rank

KEPT = 0.2
"""The share of a layer's connections that is left, those of the largest |w|."""
PIXELS = 16 * 64 * 64
"""Of all images together, of which there are at least two: more changes sensitivities by a tenth."""
_LEAST = 1e-9  # what 1 − cosine is off by; a layer of no consequence still gets something


@torch.no_grad()
def measured_sensitivities(
    backbone: nn.Module, weights: Mapping[str, Tensor], input_size: tuple[int, int, int]
) -> dict[str, float]:
    """Of each of the `weights` of `backbone`, by name.

    The images are noise, always the same: no data are needed, and every process that measures finds the same.
    """
    reference = next(iter(weights.values()))
    count = max(2, PIXELS // (input_size[1] * input_size[2]))
    images = torch.randn(count, *input_size, generator=torch.Generator().manual_seed(0)).to(reference)
    left = rank(weights, (KEPT,))[0]
    trial = copy.deepcopy(backbone).eval()
    for norm in batchnorm.layers(trial).values():
        norm.train()  # members have statistics of their own
    whole, sensitivities = trial(images), {}
    for name, weight in track(weights.items(), "Measuring layers", len(weights)):
        features = functional_call(trial, {name: weight * left[name]}, (images,))
        turned = 1 - float(F.cosine_similarity(features, whole).mean())
        root = (max(_LEAST, turned) / weight.numel()) ** 0.5
        sensitivities[name] = float(f"{root:.3g}")  # so that rounding on another machine makes no other masks
    return sensitivities
