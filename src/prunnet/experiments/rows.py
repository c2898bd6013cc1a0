"""Every way of training that is compared, as settings on top of the common one.

A row is known by one name, and so is its folder of runs; suites that share a row share its runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prunnet.experiments.paper import SELF, Pair


@dataclass(frozen=True)
class Row:
    """One way of training.

    `old` names the row whose run of the same seed, at its best rate, this one has to be compatible with. The learning
    rate with the best mean over the pairs in `tuned_by` wins. `compatible=False`: only self-tests mean anything.
    `gets` says what a row is given that others are not. `backbone_options` are added to the common ones.
    """

    settings: Mapping[str, Any]
    old: str | None = None
    tuned_by: tuple[Pair, ...] = ((1.0, 1.0), (0.2, 1.0))
    compatible: bool = True
    rate_scale: float = 1.0
    gets: str = ""
    backbone_options: Mapping[str, Any] = field(default_factory=dict)


FOUR = (0.8, 0.6, 0.4, 0.2)
EVALUATED = (1.0, *FOUR, 0.1, 0.05)
TUNED_BY: tuple[Pair, ...] = ((1.0, 1.0), (0.2, 1.0), (0.1, 1.0), (0.05, 1.0))

# All switches are written out, so that a row stays what it is when a default changes.
_OURS: dict[str, Any] = {
    "method": "prunnet", "capacities": FOUR, "evaluate_capacities": EVALUATED, "integrator": "conflict-aware",
    "alpha": 0.5, "rule": "algorithm", "granularity": "filter", "normalise_step": True, "shared": "dense",
    "loss": "cross-entropy", "distillation": 0.0, "frozen_scores": False, "frozen_weights": False,
    "selection": "connections", "allocation": "uniform", "score_start": "random", "score_lr": 1.0,
    "align_batches": 0,
}  # fmt: skip
_PAPER: dict[str, Any] = {**_OURS, "normalise_step": False}
_SUMMED = {"integrator": "sum", "shared": "integrated"}  # the sum of all losses, into all parameters
_WIDTHS = {"evaluate_capacities": ()}  # no other capacities than those trained


def _ours(**changes: Any) -> Row:
    return Row({**_OURS, **changes})


def _paper(**changes: Any) -> Row:
    return Row({**_PAPER, **changes})


_ANY: dict[str, Any] = {
    **_OURS, "capacities": "any", "evaluate_capacities": tuple(capacity for capacity, _ in TUNED_BY)
}  # fmt: skip
_OPEN = object()
"""In place of what is left to follow from the weights."""
SWITCHES: dict[str, dict[str, Any]] = {
    "allocation": {"allocation": _OPEN},
    "start": {"score_start": "magnitude"},
    "scores": {"score_lr": None},
    "step": {"normalise_step": False},
    "norms": {"align_batches": 200},
}
"""What the default changes in the paper's method at any capacity; start and step only where weights are trained."""


def _any(**changes: Any) -> Row:
    """The paper's method at any capacity with `changes`."""
    settings = {name: value for name, value in {**_ANY, **changes}.items() if value is not _OPEN}
    return Row(settings, tuned_by=TUNED_BY)


def _default(**changes: Any) -> Row:
    """The default with `changes`."""
    always = SWITCHES["allocation"] | SWITCHES["scores"] | SWITCHES["norms"]
    return _any(**{**always, "score_start": _OPEN, "normalise_step": _OPEN, **changes})


def _spread(n: int) -> dict[str, Any]:
    """N capacities evenly between 0 and 1, as N = 4 has them; the paper does not print those of other N."""
    return {"capacities": tuple(round(i / (n + 1), 4) for i in range(n, 0, -1))}


def _independent(**changes: Any) -> Row:
    return Row({**_PAPER, "method": "independent", **_WIDTHS, **changes}, tuned_by=SELF, compatible=False)


def _sfsc(**changes: Any) -> Row:
    return _paper(method="sfsc", **_WIDTHS, **changes)


def _new(method: str, old: str, gets: str) -> Row:
    settings = {**_PAPER, "method": method, "capacities": (0.1,), **_WIDTHS}
    scale = _SSPL_SCALE if method == "sspl" else 1.0
    return Row(settings, old=old, tuned_by=((0.1, 0.1), (0.1, 1.0)), rate_scale=scale, gets=gets)


_BCT = "the family trained before, its classifier, and a training of its own for 10 %"
_SSPL = "the trained dense network as its teacher; no labels"
_SSPL_SCALE = 10.0  # its loss is a divergence of a few hundredths

ROWS: dict[str, Row] = {
    # ways of training one family, with the step normalised
    "dense": Row({**_OURS, "method": "dense"}, tuned_by=((1.0, 1.0),)),
    "prunnet": _ours(),
    "prunnet-released": _ours(rule="released"),
    "released": replace(  # all that the authors' code is known to do, and ResNets that start as torchvision's
        _paper(rule="released", clip_passes=100.0, norm_decay=5e-4), backbone_options={"zero_init_last": False}
    ),
    "mean": _ours(integrator="mean"),
    "direct": _ours(integrator="direct"),
    "frozen-scores": _ours(frozen_scores=True),
    "any": _ours(capacities="any"),
    "prunnet-scores": _ours(shared="mean", score_lr=20.0),
    "any-scores": _ours(capacities="any", score_lr=20.0),
    "any-shared-scores": _ours(capacities="any", shared="mean", score_lr=20.0),
    # the factor N+1 for weights alone: scores as fast as before
    "any-step": _paper(capacities="any", score_lr=5.0),
    "any-step-direct": _paper(capacities="any", score_lr=5.0, integrator="direct"),
    "any-step-sum": _paper(capacities="any", score_lr=5.0, integrator="sum"),
    "any-distilled": _paper(capacities="any", score_lr=5.0, integrator="direct", distillation=1.0),
    # what each switch is worth, alone and left out
    "no-switch": _any(),
    **{f"{name}-alone": _any(**changes) for name, changes in SWITCHES.items()},
    "default": _default(),
    "default-uniform": _default(allocation="uniform"),
    "default-protected": _default(allocation="protected"),
    "default-random": _default(score_start="random"),
    "default-magnitude": _default(score_start="magnitude"),
    "default-slow-scores": _default(score_lr=1.0),
    "default-mean-step": _default(normalise_step=True),
    "default-sum-step": _default(normalise_step=False),
    "default-unaligned": _default(align_batches=0),
    "default-integrator-sum": _default(integrator="sum"),
    "default-integrator-direct": _default(integrator="direct"),
    "contrastive": _default(loss="contrastive"),
    "contrastive-integrator-sum": _default(loss="contrastive", integrator="sum"),
    "contrastive-integrator-direct": _default(loss="contrastive", integrator="direct"),
    "default-distilled": _default(distillation=1.0),
    # the paper's methods
    "independent": _independent(),
    "joint": _paper(method="joint", **_WIDTHS),
    "o2o-sspl": Row({**_PAPER, "method": "sspl", **_WIDTHS}, old="dense", rate_scale=_SSPL_SCALE, gets=_SSPL),
    "bct-s-switchnet": _paper(method="switchnet", **_SUMMED, **_WIDTHS),
    "asymmetric-s-switchnet": _paper(method="switchnet", loss="contrastive", **_SUMMED, **_WIDTHS),
    "sfsc": _sfsc(),
    "bct-s-prunnet": _paper(**_SUMMED),
    "asymmetric-s-prunnet": _paper(loss="contrastive", **_SUMMED),
    "prunnet-paper": _paper(),
    # a new capacity
    "joint+bct": _new("bct", "joint", _BCT),
    "o2o-sspl+sspl": _new("sspl", "o2o-sspl", _SSPL),
    "bct-s-switchnet+bct": _new("bct", "bct-s-switchnet", _BCT),
    "asymmetric-s-switchnet+bct": _new("bct", "asymmetric-s-switchnet", _BCT),
    "sfsc+bct": _new("bct", "sfsc", _BCT),
    # ablations of the paper's setting
    "frozen-scores-paper": _paper(frozen_scores=True),
    "score-maps": _paper(selection="maps", **_WIDTHS),
    "direct-paper": _paper(integrator="direct"),
    "pareto": _paper(integrator="pareto"),
    "frozen-weights": _paper(frozen_weights=True),
    "structured": _paper(selection="filters"),
    "sum-dense": _paper(integrator="sum"),
    "integrated": _paper(shared="integrated"),
    **{f"n-{n}": _paper(**_spread(n)) for n in (1, 2, 6, 8)},
    **{f"alpha-{alpha:g}": _paper(alpha=alpha) for alpha in (0.25, 1.0, 2.0, 4.0)},
}

BACKBONES: dict[str, dict[str, Any]] = {
    "resnet50": {"backbone": "resnet50", "backbone_options": {}},
    "resnext50": {"backbone": "resnext50_32x4d", "backbone_options": {}},
    "mobilenetv2": {"backbone": "mobilenetv2_100", "backbone_options": {}},
    "vit-small": {"backbone": "vit_small_patch16_224", "backbone_options": {}},
}
_NARROW = {"in_chans": 1, "channels": [16, 32, 64, 128], "layers": [1, 1, 1, 1], "stem_type": "deep", "stem_width": 8}
_NARROW_VIT = {"in_chans": 1, "img_size": 28, "patch_size": 7, "embed_dim": 96, "depth": 6, "num_heads": 3}
SMALL_BACKBONES: dict[str, dict[str, Any]] = {
    "resnet50": {"backbone": "resnet50", "backbone_options": _NARROW},
    "resnext50": {"backbone": "resnext50_32x4d", "backbone_options": {**_NARROW, "cardinality": 4, "base_width": 16}},
    "mobilenetv2": {"backbone": "mobilenetv2_050", "backbone_options": {"in_chans": 1}},
    "vit-small": {"backbone": "vit_small_patch16_224", "backbone_options": _NARROW_VIT},
}
"""Narrow relatives for grey images of 28 pixels."""


def _backbone_rows(
    backbones: Mapping[str, Mapping[str, Any]], suffix: str, adamw_scale: float, warmup_epochs: int
) -> dict[str, Row]:
    adamw = {"optimiser": "adamw", "schedule": "cosine", "warmup_epochs": warmup_epochs}
    rows = {}
    for name, network in backbones.items():
        for method, make in (("independent", _independent), ("sfsc", _sfsc), ("prunnet", _paper)):
            row = make(**network)
            if name == "vit-small":
                row = replace(row, settings={**row.settings, **adamw}, rate_scale=adamw_scale)
            rows[f"{method}-{name}{suffix}"] = row
    return rows


ROWS |= _backbone_rows(BACKBONES, "", 0.001, 3)  # AdamW at 3e-5 … 3e-4, of which the paper uses the first
ROWS |= _backbone_rows(SMALL_BACKBONES, "-small", 0.01, 0)  # not pretrained, so faster
