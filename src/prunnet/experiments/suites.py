"""Every comparison of the paper as data: suites are rows and columns, with the paper's numbers beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prunnet.errors import SuiteError
from prunnet.experiments import paper
from prunnet.experiments.paper import NEW, SELF_AND_CROSS, Cells, Pair
from prunnet.experiments.rows import BACKBONES, ROWS, SWITCHES, TUNED_BY, Row


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
    "dense": "dense network alone", "no-switch": "no switch",
    **{f"{name}-alone": f"{name} alone" for name in SWITCHES}, "default": "the default",
    "default-uniform": "`allocation=uniform`", "default-protected": "`allocation=protected`",
    "default-random": "`score_start=random`",
    "default-magnitude": "`score_start=magnitude`", "default-slow-scores": "`score_lr=1`",
    "default-mean-step": "`normalise_step=true`", "default-sum-step": "`normalise_step=false`",
    "default-unaligned": "`align_batches=0`", "default-integrator-sum": "`integrator=sum`",
    "default-integrator-direct": "`integrator=direct`", "default-distilled": "`distillation=1`",
}  # fmt: skip
_INTEGRATORS = {
    f"{loss}{suffix}": f"{label}: {integrator}"
    for loss, label in (("default", "cross-entropy"), ("contrastive", "contrastive"))
    for suffix, integrator in (("", "conflict-aware"), ("-integrator-direct", "direct"), ("-integrator-sum", "sum"))
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
