"""Eq. 4: projections of conflicting gradients, in the span of the gradients.

A projection is returned as coefficients `[B, m, m]` of unit vectors: ĝ_i = ‖g_i‖ Σ_j c_ij g_j/‖g_j‖. No coefficient
exceeds 1, whatever the norms.
"""

import torch
from torch import Tensor

from ._blocks import Blocks


def project(cosines: Tensor, order: Tensor) -> Tensor:
    """Algorithm 1: take from ĝ_i its component along each g_j, in the order of row i, that it still opposes."""
    unit = torch.eye(len(order), dtype=cosines.dtype, device=cosines.device)
    cosines = cosines.permute(1, 2, 0).contiguous()  # blocks last: sums over m are then vectorised
    projections = unit.unsqueeze(2).expand_as(cosines).clone()
    for met in order.unbind(1):
        components = (projections * cosines[met]).sum(1, keepdim=True).clamp(max=0)
        others = (unit[met] - unit).clamp(min=0).unsqueeze(2)  # a zero row where pass i meets itself
        projections.addcmul_(components, others, value=-1)
    return projections.permute(2, 0, 1)


def project_once(cosines: Tensor, order: Tensor) -> Tensor:
    """The authors' published code: take from g_i its component along the last g_j, in one `order`, that it opposes."""
    unit = torch.eye(len(order), dtype=cosines.dtype, device=cosines.device)
    turn = order.argsort() + 1
    last = torch.where(cosines < 0, turn, 0).argmax(2, keepdim=True)
    component = cosines.gather(2, last).clamp(max=0)
    return unit - component * unit[last.squeeze(2)]


def combine_projections(projections: Tensor, gammas: Tensor, blocks: Blocks) -> Tensor:
    """The coefficients `[B, m]` of the gradients in Σ γ_i ĝ_i."""
    return ((gammas * blocks.norms).unsqueeze(1) @ projections).squeeze(1) * blocks.reciprocal_norms
