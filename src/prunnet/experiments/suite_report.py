"""Everything a suite leaves in DIR/<suite>/: table.md, table.tex, table.csv, runs.csv and figures/."""

from collections.abc import Callable
from pathlib import Path

from prunnet._files import write_text
from prunnet.errors import DataError, MissingExtraError
from prunnet.experiments import figures, suite_tables
from prunnet.experiments.comparison import Comparison
from prunnet.experiments.fairness import NOTE, fair_play
from prunnet.experiments.figures import retrieval_over_cost, tsne_figure
from prunnet.experiments.gradients_table import NOTE as GRADIENTS_NOTE
from prunnet.experiments.gradients_table import gradients_table
from prunnet.experiments.paper import ALL_PAIRS
from prunnet.experiments.results import COVERS, Differences, RowResult, differences, gather
from prunnet.experiments.suites import Suite
from prunnet.runs import resolve


def write_suite(comparison: Comparison, folder: Path, say: Callable[[str], None]) -> Path:
    """Tables, fair play and figures from the runs that are finished."""
    suite, results = comparison.suite, gather(comparison)
    pairs = ALL_PAIRS if suite.matrices else suite.columns
    by_row = differences(suite, results, pairs)
    write_text(folder / "table.md", _markdown(comparison, results, by_row))
    write_text(folder / "table.tex", _latex(suite, results, by_row))
    write_text(folder / "table.csv", suite_tables.long_csv(suite, results, pairs, by_row))
    write_text(folder / "runs.csv", suite_tables.runs_csv(results))
    _draw(comparison, results, folder / "figures", say)
    return folder


def _draw(comparison: Comparison, results: list[RowResult], folder: Path, say: Callable[[str], None]) -> None:
    suite = comparison.suite
    figures.capacity_curve(results, folder)
    figures.conflicts(results, folder)
    for key in figures.PASSES:
        figures.passes(results, folder, key)
    figures.sweep(suite, results, folder)
    retrieval_over_cost(results, folder)
    for result in results:
        if result.name == suite.reference:
            try:
                data = resolve(comparison.setting).load_data()
                tsne_figure(next(iter(result.runs.values())), data, folder)
            except (MissingExtraError, DataError) as error:
                say(f"t-SNE left out: {error}")


def _markdown(comparison: Comparison, results: list[RowResult], by_row: Differences) -> str:
    suite = comparison.suite
    matrix = results[0].matrices[0]
    parts = [
        f"# {suite.title}",
        f"{matrix.metric} (%) on {matrix.data}, {matrix.queries} queries; mean ± standard deviation over seeds.",
        suite_tables.measured(suite, results).markdown(),
    ]
    finished = {result.name for result in results}
    missing = [name for name in suite.rows if name not in finished]
    if failed := [suite.rows[name] for name in missing if comparison.failed(name)]:
        parts.append(f"Diverged at every learning rate: {', '.join(failed)}.")
    if open_rows := [suite.rows[name] for name in missing if not comparison.failed(name)]:
        parts.append(f"Not finished: {', '.join(open_rows)}.")
    if suite.matrices:
        parts += ["## Every pair", *(table.markdown() for table in suite_tables.matrices(results))]
    if (compared := suite_tables.compared(suite, by_row)) is not None:
        reference = suite.rows[suite.reference] if isinstance(suite.reference, str) else "PrunNet on the same backbone"
        parts += [f"## Difference to {reference}, in points", _covers(by_row), compared.markdown()]
    if (paper := suite_tables.published(suite)) is not None:
        parts += ["## The paper's numbers", "Mean mAP (%) on GLDv2-test, RParis and ROxford.", paper.markdown()]
        if suite.matrices:
            parts += [table.markdown() for table in suite_tables.published_matrices(suite)]
    if (gradients := gradients_table(results)) is not None:
        parts += ["## Gradients", GRADIENTS_NOTE, gradients.markdown()]
    parts += ["## Fair play", NOTE, fair_play(results).markdown()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _covers(by_row: Differences) -> str:
    known = any(difference.interval for difference in by_row.values())
    return COVERS if known else "No intervals, since these runs did not write down their values per query."


def _latex(suite: Suite, results: list[RowResult], by_row: Differences) -> str:
    parts = [f"% {suite.title}", suite_tables.measured(suite, results).latex()]
    if suite.matrices:
        parts += [table.latex() for table in suite_tables.matrices(results)]
    if (compared := suite_tables.compared(suite, by_row)) is not None:
        parts += ["% differences to the reference", compared.latex()]
    if (paper := suite_tables.published(suite)) is not None:
        parts += ["% the paper's numbers", paper.latex()]
    return "\n".join(parts)
