"""`--dry-run`: what a run would do, and what it would take, from one measured step."""

import time
from dataclasses import dataclass

import torch

from prunnet.data import RetrievalData
from prunnet.network import PrunableNetwork
from prunnet.network.aligning import READINGS
from prunnet.runs import Run, TrainConfig
from prunnet.training.build import build_method, build_network, build_optimiser
from prunnet.training.ranks import Ranks


@dataclass(frozen=True)
class Plan:
    """Sizes and estimates of a run on this machine."""

    images: int
    classes: int
    steps: int
    passes: int
    parameters: int
    connections: int
    model_bytes: int
    training_bytes: int
    """Weights, scores, the stacked gradients, gradients and optimiser state; activations come on top."""
    aligning_passes: int
    """What aligning the members takes in the end: about as long as a pass each, for every batch."""
    seconds_per_step: float

    @property
    def hours(self) -> float:
        return (self.steps + self.aligning_passes / self.passes) * self.seconds_per_step / 3600


def plan(config: TrainConfig, data: RetrievalData) -> Plan:
    """Build everything that `config` describes and take two steps on random images."""
    assert data.train is not None
    ranks = Ranks(config.device)
    old = None if config.old is None else Run(config.old)
    method = build_method(config, build_network(config), data.train, old).to(ranks.device).train()
    batches = max(1, len(data.train) // config.batch_size)
    optimiser = build_optimiser(config, method, batches)
    labels = torch.randint(0, data.train.classes, (config.batch_size // ranks.size,), device=ranks.device)
    images = torch.randn(len(labels), *method.family.preprocessing.input_size, device=ranks.device)
    for number in range(2):  # the first one allocates
        began = time.perf_counter()
        step = method.step(number)
        for part, wanted in zip(images.chunk(config.accumulate), labels.chunk(config.accumulate), strict=True):
            losses = step.backward(part, wanted, 1 / config.accumulate)
        step.finish()
        optimiser.step()
        seconds = time.perf_counter() - began
    parameters = [p for p in method.parameters() if p.requires_grad]
    values = sum(p.numel() for p in parameters)
    family = method.family
    aligned = (1.0, *family.capacities) if isinstance(family, PrunableNetwork) and family.capacities else ()
    states = 2 if config.optimiser == "adamw" else 1
    return Plan(
        images=len(data.train),
        classes=data.train.classes,
        steps=config.epochs * (len(data.train) // config.batch_size),
        passes=len(losses),
        parameters=values - method.connections,
        connections=method.connections,
        model_bytes=4 * values,
        training_bytes=4 * (values * (2 + states) + step.stacked_values),
        aligning_passes=min(config.align_batches, READINGS * batches) * len(aligned),
        seconds_per_step=seconds,
    )
