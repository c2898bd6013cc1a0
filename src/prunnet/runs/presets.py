"""Settings by name: those of the paper's experiments, and small ones for the data at hand."""

from collections.abc import Mapping
from typing import Any

_PAPER: Mapping[str, Any] = {
    "integrator": "conflict-aware",
    "rule": "algorithm",
    "granularity": "filter",
    "alpha": 0.5,
    "normalise_step": False,
    "shared": "dense",
    "score_lr": 1.0,
    "allocation": "uniform",
    "capacities": (0.8, 0.6, 0.4, 0.2),
    "align_batches": 0,
    "batch_size": 64,
    "momentum": 0.9,
    "weight_decay": 5e-4,
}

_OMNIGLOT: Mapping[str, Any] = {
    "data": "omniglot",
    "backbone": "resnet18",
    "backbone_options": {
        "in_chans": 1,
        "channels": [16, 32, 64, 128],
        "layers": [1, 1, 1, 1],
        "stem_type": "deep",
        "stem_width": 8,
    },
    "input_size": (1, 28, 28),
    "embedding_dim": 128,
    "batch_size": 64,
    "weight_decay": 5e-4,
    "schedule": "cosine",
    "augmentation": {"scale": (0.7, 1.0), "hflip": 0.0},
    "evaluate_capacities": (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05),
}

_MULTISTEP: Mapping[str, Any] = {**_PAPER, "lr": 0.1, "schedule": "multistep"}

_VIT: Mapping[str, Any] = {
    **_PAPER,
    "backbone": "vit_small_patch16_224",
    "optimiser": "adamw",
    "lr": 3e-5,
    "schedule": "cosine",
    "warmup_epochs": 3,
    "epochs": 30,
}

# widths 0.75, 0.5 and 0.25 of SFSC, as shares of the connections; the paper gives this schedule for VeRi-776
_REIDENTIFICATION: Mapping[str, Any] = {
    **_PAPER,
    "capacities": (0.5625, 0.25, 0.0625),
    "epochs": 60,
    "lr": 0.01,
    "schedule": "cosine",
    "cosine_from": 30,
    "adapt_batches": None,
}
_PERSONS: Mapping[str, Any] = {**_REIDENTIFICATION, "input_size": (3, 256, 128)}

PRESETS: dict[str, Mapping[str, Any]] = {
    "paper-gldv2-cnn": {**_MULTISTEP, "data": "gldv2", "epochs": 30, "milestones": (5, 10, 20)},
    "paper-vit": _VIT,
    "paper-inshop": {
        **_MULTISTEP,
        "data": "inshop",
        "epochs": 200,
        "milestones": (50, 100, 150),
        "adapt_batches": None,
    },
    "paper-veri776": {**_REIDENTIFICATION, "data": "veri776"},
    "paper-market1501": {**_PERSONS, "data": "market1501"},
    "paper-msmt17": {**_PERSONS, "data": "msmt17"},
    "paper-cub200": {**_VIT, "data": "cub200", "data_options": {"split": "standard"}, "adapt_batches": None},
    "omniglot": {**_OMNIGLOT, "epochs": 6},
    "omniglot-small": {**_OMNIGLOT, "epochs": 12, "data_options": {"every": (7, 4)}},
}
"""The paper's settings (batch 64, SGD or AdamW, schedules and weight decay of Section 4 and the appendix), and a small
network for Omniglot, whole or thinned, on which this project compares methods."""
