"""The compatibility matrix: M(φq, φg) for every pair of subnetworks, φq embedding queries and φg the gallery."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from prunnet._checked import seal, unseal
from prunnet._files import locked, write_atomically
from prunnet.errors import DamagedError, EvaluationError
from prunnet.evaluation import render
from prunnet.evaluation.bootstrap import Intervals, bootstrap_intervals
from prunnet.evaluation.check import CompatibilityCheck, Violation
from prunnet.evaluation.relevance import Floats
from prunnet.network.capacity import format_capacity

PathLike = str | os.PathLike[str]
FORMAT = "prunnet compatibility matrix 2"
UNSEALED = "prunnet compatibility matrix 1"
UNREADABLE = ("unreadable_queries", "unreadable_gallery")


@dataclass(frozen=True)
class Model:
    """One row and column of the matrix; `role` is empty, or `new` and `old` when two families are compared."""

    capacity: float
    family_id: str
    role: str = ""

    @property
    def name(self) -> str:
        """`20 %`, or `old 100 %`."""
        return f"{self.role} {format_capacity(self.capacity)}".strip()


@dataclass(frozen=True, eq=False)
class CompatibilityMatrix:
    """`values[i, j]` = M(φq = models[i], φg = models[j]), as a fraction; the diagonal holds the self-tests.

    `queries` were scored, `unanswered` ones left out because nothing in the gallery answers them. `unreadable_queries`
    and `unreadable_gallery` name images left out beforehand.
    `per_query` `[models, models, queries]` is what intervals and paired comparisons are computed from.
    """

    models: tuple[Model, ...]
    values: Floats
    metric: str
    data: str
    queries: int
    unanswered: int = 0
    per_query: Floats | None = None
    intervals: Intervals | None = None
    unreadable_queries: tuple[str, ...] = ()
    unreadable_gallery: tuple[str, ...] = ()

    def at(self, query: float, gallery: float) -> float:
        """M(φq, φg) by capacity, where there is one family."""
        places = {model.capacity: place for place, model in enumerate(self.models) if model.role != "old"}
        if missing := {query, gallery} - set(places):
            have = ", ".join(f"{capacity:g}" for capacity in places)
            raise EvaluationError(f"no capacity {missing.pop():g} in this matrix: it has {have}")
        return float(self.values[places[query], places[gallery]])

    @property
    def reference(self) -> Any:
        """For each pair the model whose self-test it has to reach: the old one, or the smaller one within a family."""
        size = [(model.role != "old", model.capacity) for model in self.models]
        return np.array(
            [[row if size[row] <= size[column] else column for column in range(len(size))] for row in range(len(size))]
        )

    def check(self, tolerance: float = 0.0) -> CompatibilityCheck:
        """Compatible if every cross-test is at least the smaller one's self-test, less `tolerance` (a fraction)."""
        reference, violations = self.reference, []
        for row, column in np.ndindex(self.values.shape):
            smaller = reference[row, column]
            cross, alone = float(self.values[row, column]), float(self.values[smaller, smaller])
            if row != column and cross < alone - tolerance:
                interval = self._margin(row, column)
                names = self.models[row].name, self.models[column].name
                violations.append(Violation(*names, cross, alone, self.models[smaller].name, interval))
        violations.sort(key=lambda violation: violation.cross_test - violation.self_test)
        return CompatibilityCheck(len(self.models) * (len(self.models) - 1), tolerance, tuple(violations))

    def _margin(self, row: int, column: int) -> tuple[float, float] | None:
        if self.intervals is None:
            return None
        return float(self.intervals.margin_lower[row, column]), float(self.intervals.margin_upper[row, column])

    def bootstrap(self, samples: int = 1000, confidence: float = 0.95, seed: int = 0) -> "CompatibilityMatrix":
        """The same matrix with confidence intervals over queries."""
        if self.per_query is None:
            raise EvaluationError("a matrix read from a file has no scores per query to resample; evaluate again")
        return replace(self, intervals=bootstrap_intervals(self.per_query, self.reference, samples, confidence, seed))

    def __rich__(self) -> Any:
        return render.table(self)

    def __str__(self) -> str:
        return render.markdown(self)

    def to_markdown(self, path: PathLike | None = None) -> str:
        """The table in Markdown, written to `path` if given."""
        return _written(render.markdown(self), path)

    def to_latex(self, path: PathLike | None = None) -> str:
        """The table as a LaTeX tabular (booktabs), written to `path` if given."""
        return _written(render.latex(self), path)

    def to_csv(self, path: PathLike | None = None) -> str:
        """One line per pair, full precision, written to `path` if given."""
        return _written(render.csv_lines(self), path)

    def to_json(self, path: PathLike | None = None) -> str:
        """The figures, written to `path` if given; `from_json` reads them back, and the scores per query beside it."""
        if path is not None and self.per_query is not None:
            with write_atomically(_scores_beside(path)) as temporary, temporary.open("wb") as file:
                np.save(file, self.per_query.astype(np.float32), allow_pickle=False)
        content: dict[str, Any] = {"format": FORMAT, "metric": self.metric, "data": self.data}
        content |= {"queries": self.queries, "unanswered": self.unanswered}
        content |= {key: list(getattr(self, key)) for key in UNREADABLE}
        content |= {"models": [asdict(model) for model in self.models], "values": self.values.tolist()}
        if self.intervals is not None:
            content["intervals"] = self.intervals.as_lists()
        return _written(json.dumps(seal(content), indent=1) + "\n", path)

    @classmethod
    def from_json(cls, source: PathLike) -> "CompatibilityMatrix":
        """Read what `to_json` wrote to a file."""
        try:
            content = json.loads(Path(source).read_text(encoding="utf-8"))
            if content["format"] not in (FORMAT, UNSEALED):
                raise ValueError(f"its format is {content['format']!r}")
            if content["format"] == FORMAT:
                content = unseal(content, source)
            models = tuple(Model(**model) for model in content["models"])
            values = np.array(content["values"], dtype=np.float64)
            if values.shape != (len(models), len(models)):
                raise ValueError(f"{len(models)} models with values of shape {values.shape}")
            intervals = Intervals.from_lists(content["intervals"]) if "intervals" in content else None
            rest = {key: content[key] for key in ("metric", "data", "queries", "unanswered")}
            rest |= {key: tuple(content.get(key, ())) for key in UNREADABLE}
            per_query = _read_scores(_scores_beside(source), (*values.shape, content["queries"]))
            return cls(models=models, values=values, intervals=intervals, per_query=per_query, **rest)
        except OSError as error:
            raise EvaluationError(f"{source}: cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, RecursionError, DamagedError) as error:
            raise EvaluationError(f"{source}: not a {FORMAT} ({error})") from None

    def write(self, folder: PathLike) -> None:
        """Everything into `folder`: csv, markdown, LaTeX and pictures, and in the end matrix.json."""
        target = Path(folder)
        with locked(target):
            target.mkdir(exist_ok=True)
            self.to_csv(target / "matrix.csv")
            self.to_markdown(target / "matrix.md")
            self.to_latex(target / "matrix.tex")
            self.heatmap(target / "matrix.png")
            self.curve(target / "curve.png")
            self.to_json(target / "matrix.json")

    def heatmap(self, path: PathLike) -> Path:
        """Draw the matrix; the suffix says png, svg or pdf."""
        from prunnet.evaluation import plots

        return plots.heatmap(self, Path(path))

    def curve(self, path: PathLike) -> Path:
        """Draw self-test and cross-test against the dense gallery over capacity; the suffix says png, svg or pdf."""
        from prunnet.evaluation import plots

        return plots.curve(self, Path(path))


def _scores_beside(path: PathLike) -> Path:
    """`matrix.json` → `matrix.npy`."""
    return Path(path).with_suffix(".npy")


def _read_scores(file: Path, shape: tuple[int, ...]) -> Floats | None:
    try:
        scores = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None  # absent or damaged: the figures stand without them
    return scores.astype(np.float64) if scores.shape == shape else None


def _written(text: str, path: PathLike | None) -> str:
    if path is not None:
        with write_atomically(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return text
