"""Every comparison of the paper as data: rows are settings on top of the common one, suites are rows and columns.

A row is known by one name, and so is its folder of runs; suites that share a row share its runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prunnet.errors import SuiteError
from prunnet.experiments import paper
from prunnet.experiments.paper import NEW, SELF, SELF_AND_CROSS, Cells, Pair


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


_SMALL_MEMBERS = tuple(capacity for capacity, _ in TUNED_BY)
# What a family is trained with unless told otherwise, written as what it changes in the paper's method at any capacity.
_SWITCHES: dict[str, dict[str, Any]] = {
    "allocation": {"allocation": "protected"},
    "start": {"score_start": "magnitude"},
    "scores": {"score_lr": None},
    "step": {"normalise_step": False},
    "norms": {"align_batches": 200},
}


def _switched(**changes: Any) -> Row:
    """The paper's method at any capacity with `changes`."""
    settings = {**_OURS, "capacities": "any", "evaluate_capacities": _SMALL_MEMBERS, **changes}
    return Row(settings, tuned_by=TUNED_BY)


def _default(**changes: Any) -> Row:
    """The default with `changes`: how scores start and what moves weights follow from whether these are trained."""
    row = _switched(allocation="protected", score_lr=None, align_batches=200)
    settings = {name: value for name, value in row.settings.items() if name not in ("score_start", "normalise_step")}
    return replace(row, settings={**settings, **changes})


def _spread(n: int) -> dict[str, Any]:
    """N capacities evenly between 0 and 1, as N = 4 has them; the paper does not print those of other N."""
    return {"capacities": tuple(round(i / (n + 1), 4) for i in range(n, 0, -1))}


def _independent(**changes: Any) -> Row:
    return Row({**_PAPER, "method": "independent", **_WIDTHS, **changes}, tuned_by=SELF, compatible=False)


def _sfsc(**changes: Any) -> Row:
    return _paper(method="sfsc", **_WIDTHS, **changes)


def _new(method: str, old: str, gets: str) -> Row:
    settings = {**_PAPER, "method": method, "capacities": (0.1,), **_WIDTHS}
    return Row(settings, old=old, tuned_by=((0.1, 0.1), (0.1, 1.0)), gets=gets)


_BCT = "the family trained before, its classifier, and a training of its own for 10 %"
_SSPL = "the trained dense network as its teacher; no labels"

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
    "any-alone": _switched(),
    **{f"{name}-alone": _switched(**changes) for name, changes in _SWITCHES.items()},
    "default": _default(),
    "default-uniform": _default(allocation="uniform"),
    "default-random": _default(score_start="random"),
    "default-magnitude": _default(score_start="magnitude"),
    "default-slow-scores": _default(score_lr=1.0),
    "default-mean": _default(normalise_step=True),
    "default-sum": _default(normalise_step=False),
    "default-unaligned": _default(align_batches=0),
    "default-summed": _default(integrator="sum"),
    "default-direct": _default(integrator="direct"),
    "contrastive": _default(loss="contrastive"),
    "contrastive-summed": _default(loss="contrastive", integrator="sum"),
    "contrastive-direct": _default(loss="contrastive", integrator="direct"),
    "default-distilled": _default(distillation=1.0),
    # the paper's methods
    "independent": _independent(),
    "joint": _paper(method="joint", **_WIDTHS),
    "o2o-sspl": Row({**_PAPER, "method": "sspl", **_WIDTHS}, old="dense", gets=_SSPL),
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


@dataclass(frozen=True)
class Suite:
    """`rows`: name of a row → its label in this table; `paper`: the paper's numbers by name of the row.

    `reference` is the row that others are compared with; for some suites it depends on the row. `axis`: what the rows
    vary, and each one's place on it.
    """

    name: str
    title: str
    rows: Mapping[str, str]
    columns: tuple[Pair, ...] = SELF_AND_CROSS
    paper: Mapping[str, Cells] = field(default_factory=dict)
    reference: str | Mapping[str, str] = "prunnet-paper"
    matrices: bool = False
    axis: tuple[str, Mapping[str, float]] | None = None
    definitions: Mapping[str, Row] = field(default_factory=lambda: ROWS, repr=False)

    def reference_of(self, name: str) -> str:
        """The row that `name` is compared with."""
        return self.reference if isinstance(self.reference, str) else self.reference[name]

    def order(self) -> list[str]:
        """The rows to train: those of the table, each after the one it has to be compatible with."""
        ordered: dict[str, None] = {}

        def add(name: str) -> None:
            if name not in self.definitions:
                raise SuiteError(f"there is no row {name!r}; there are {', '.join(self.definitions)}")
            if old := self.definitions[name].old:
                add(old)
            ordered[name] = None

        for name in self.rows:
            add(name)
        return list(ordered)


_TABLE1 = {
    "independent": "Independent learning", "joint": "Joint learning", "o2o-sspl": "O2O-SSPL",
    "bct-s-switchnet": "BCT-S w/ SwitchNet", "asymmetric-s-switchnet": "Asymmetric-S w/ SwitchNet", "sfsc": "SFSC",
    "bct-s-prunnet": "BCT-S w/ PrunNet", "asymmetric-s-prunnet": "Asymmetric-S w/ PrunNet", "prunnet-paper": "PrunNet",
}  # fmt: skip
_NEW_CAPACITY = {
    "joint+bct": "Joint learning + BCT", "o2o-sspl+sspl": "O2O-SSPL + SSPL",
    "bct-s-switchnet+bct": "BCT-S w/ SwitchNet + BCT",
    "asymmetric-s-switchnet+bct": "Asymmetric-S w/ SwitchNet + BCT", "sfsc+bct": "SFSC + BCT",
    "bct-s-prunnet": "BCT-S w/ PrunNet", "asymmetric-s-prunnet": "Asymmetric-S w/ PrunNet", "prunnet-paper": "PrunNet",
}  # fmt: skip
_ABLATION = {
    "independent": "Independent learning", "prunnet-paper": "PrunNet (N = 4)", "frozen-scores-paper": "Frozen scores",
    "score-maps": "N score maps (N = 4)", "direct-paper": "Direct gradient integration",
    "bct-s-prunnet": "Direct loss combination", "pareto": "Pareto integration",
    "frozen-weights": "Without weight optimisation", "n-1": "PrunNet (N = 1)", "n-2": "PrunNet (N = 2)",
    "n-6": "PrunNet (N = 6)",
}  # fmt: skip
_N = {"n-1": "N = 1", "n-2": "N = 2", "prunnet-paper": "N = 4", "n-6": "N = 6", "n-8": "N = 8"}
_ALPHA = {
    "direct-paper": "α = 0", "alpha-0.25": "α = 0.25", "prunnet-paper": "α = 0.5", "alpha-1": "α = 1",
    "alpha-2": "α = 2", "alpha-4": "α = 4",
}  # fmt: skip
_SHARED = {
    "prunnet-paper": "Conflict-aware; dense pass (PrunNet)", "integrated": "Conflict-aware; all passes",
    "sum-dense": "Sum; dense pass", "bct-s-prunnet": "Sum; all passes (direct loss combination)",
}  # fmt: skip
_TRAINING = (
    "dense", "prunnet", "prunnet-paper", "prunnet-released", "released", "mean", "direct", "frozen-scores", "any",
    "prunnet-scores", "any-scores", "any-shared-scores", "any-step", "any-step-direct", "any-step-sum",
    "any-distilled",
)  # fmt: skip
_SWITCH_ROWS = {
    "dense": "dense network alone", "any-alone": "no switch",
    **{f"{name}-alone": f"{name} alone" for name in _SWITCHES}, "default": "the default",
    "default-uniform": "`allocation=uniform`", "default-random": "`score_start=random`",
    "default-magnitude": "`score_start=magnitude`", "default-slow-scores": "`score_lr=1`",
    "default-mean": "`normalise_step=true`", "default-sum": "`normalise_step=false`",
    "default-unaligned": "`align_batches=0`", "default-summed": "`integrator=sum`",
    "default-direct": "`integrator=direct`", "default-distilled": "`distillation=1`",
}  # fmt: skip
_INTEGRATORS = {
    f"{loss}{suffix}": f"{label}: {integrator}"
    for loss, label in (("default", "cross-entropy"), ("contrastive", "contrastive"))
    for suffix, integrator in (("", "conflict-aware"), ("-direct", "direct"), ("-summed", "sum"))
}
_BACKBONES = {
    f"{method}-{name}": f"{text}: {label}"
    for name, text in zip(BACKBONES, ("ResNet-50", "ResNeXt-50", "MobileNet-V2", "ViT-Small"), strict=True)
    for method, label in (("independent", "Independent learning"), ("sfsc", "SFSC"), ("prunnet", "PrunNet"))
}


def _places(labels: Mapping[str, str]) -> dict[str, float]:
    return {name: float(label.partition(" = ")[2]) for name, label in labels.items()}


_OWN_PRUNNET = {
    f"{name}{suffix}": f"prunnet-{name.partition('-')[2]}{suffix}" for name in _BACKBONES for suffix in ("", "-small")
}

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("table1", "Pre-determined capacities", _TABLE1, paper=paper.TABLE1, matrices=True),
        Suite("new-capacity", "A new capacity, 10 %", _NEW_CAPACITY, NEW, paper.NEW_CAPACITY),
        Suite("backbones", "Other backbones", _BACKBONES, paper=paper.BACKBONES, reference=_OWN_PRUNNET),
        Suite(
            "backbones-small",
            "Other backbones, narrow",
            {f"{name}-small": label for name, label in _BACKBONES.items()},
            paper={f"{name}-small": cells for name, cells in paper.BACKBONES.items()},
            reference=_OWN_PRUNNET,
        ),
        Suite("ablation", "Variants of PrunNet", _ABLATION, paper=paper.ABLATION),
        Suite("n", "Number of subnetworks trained, N", _N, paper=paper.N, axis=("N", _places(_N))),
        Suite("alpha", "Exponent of Eq. 5, α", _ALPHA, paper=paper.ALPHA, axis=("α", _places(_ALPHA))),
        Suite(
            "structured",
            "Structured and unstructured subnetworks",
            {"sfsc": "SFSC", "structured": "PrunNet (structured)", "prunnet-paper": "PrunNet (unstructured)"},
            paper=paper.STRUCTURED,
        ),
        Suite("shared", "Integration of weights and scores; passes that train norms, head and classifier", _SHARED),
        Suite(
            "training",
            "Ways of training a family",
            {name: name for name in _TRAINING},
            ((1.0, 1.0), (0.2, 0.2), (0.2, 1.0), (0.1, 1.0), (0.05, 1.0)),
            reference="prunnet",
        ),
        Suite("integrators", "Integration where gradients conflict", _INTEGRATORS, TUNED_BY, reference="default"),
        Suite(
            "switches",
            "What each switch of the default is worth",
            _SWITCH_ROWS,
            TUNED_BY,
            reference="default",
        ),
    )
}


def find_suite(name: str) -> Suite:
    """The suite called `name`."""
    if name not in SUITES:
        raise SuiteError(f"there is no suite {name!r}; there are {', '.join(SUITES)}, edge-popup")
    return SUITES[name]
