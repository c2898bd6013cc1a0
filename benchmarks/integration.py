"""Conflict-aware integration of all convolutions of ResNet-18, m = 5, against a loop over filters and against training.

    python benchmarks/integration.py

The loop is Algorithm 1 as one would write it, on the same gradients with the same order. Training is five forward and
backward passes at 112 px with batch 64: what one step of PrunNet needs before there is anything to integrate.
"""

import torch
from torch import Tensor, nn

from prunnet._timing import medians
from prunnet._torchvision import require_torchvision
from prunnet.gradients import ConflictAware

PASSES = 5
ROUNDS = 5


def loop_over_filters(gradients: Tensor, order: list[list[int]], alpha: float = 0.5) -> Tensor:
    integrated = torch.empty_like(gradients[0])
    for index in range(gradients.shape[1]):
        originals = list(gradients[:, index].flatten(1))
        projected, gammas = [], []
        for i, original in enumerate(originals):
            vector = original.clone()
            for j in order[i]:
                inner = vector.dot(originals[j])
                if j != i and inner < 0:
                    vector -= inner / originals[j].dot(originals[j]) * originals[j]
            projected.append(vector)
            gammas.append((vector.dot(original) / (vector.norm() * original.norm())).clamp(0, 1) ** alpha)
        total = sum(gamma * vector for gamma, vector in zip(gammas, projected, strict=True))
        integrated[index] = (PASSES * total / sum(gammas)).view_as(integrated[index])
    return integrated


def main() -> None:
    require_torchvision()
    import timm

    torch.manual_seed(0)
    network = timm.create_model("resnet18", num_classes=0)
    images = torch.randn(64, 3, 112, 112)
    # Half of all pairs of independent gradients conflict, more than in training.
    layers = {
        name: torch.randn(PASSES, *module.weight.shape)
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d)
    }
    integrator = ConflictAware()
    shuffle = torch.Generator().manual_seed(0)
    order = [torch.randperm(PASSES, generator=shuffle).tolist() for _ in range(PASSES)]

    def integrate() -> dict[str, Tensor]:
        return integrator.integrate(layers, generator=torch.Generator().manual_seed(0)).gradients

    def loop() -> dict[str, Tensor]:
        return {name: loop_over_filters(gradients, order) for name, gradients in layers.items()}

    def train() -> None:
        for _ in range(PASSES):
            network(images).square().mean().backward()

    expected = loop()
    for name, gradient in integrate().items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-4)

    seconds = medians({"integration": integrate, "loop": loop, "five passes": train}, ROUNDS)
    ours, looped, trained = seconds.values()
    filters = sum(gradients.shape[1] for gradients in layers.values())
    print(f"{len(layers)} convolutions, {filters} filters, {PASSES} gradients each; {torch.get_num_threads()} threads")
    print(f"integration {ours * 1e3:.1f} ms, loop {looped * 1e3:.0f} ms, five passes {trained * 1e3:.0f} ms")
    print(f"integration_speedup_over_loop: {looped / ours:.1f}")
    print(f"integration_share_of_five_passes: {ours / trained:.4f}")


if __name__ == "__main__":
    main()
