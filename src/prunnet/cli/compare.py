"""`prunnet compare`: the paper's tables and figures, one suite at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from prunnet.cli.arguments import say

Number = TypeVar("Number", int, float)


def compare(
    suite: Annotated[str, typer.Argument(help="table1, new-capacity, ablation, …; `list` shows them with their rows.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs, shared by all suites under one setting.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Setting of all rows by name (prunnet train --settings).")] = None,
    data: Annotated[str | None, typer.Option(help="Data set of all rows (prunnet data list).")] = None,
    root: Annotated[Path | None, typer.Option(help="Where a benchmark lies on disk.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the table.")] = "0,1,2",
    rates: Annotated[
        str | None,
        typer.Option(help="Learning rates every row tries on a seed of its own.", show_default="0.3, 1 and 3 times lr"),
    ] = None,
    rows: Annotated[str, typer.Option(help="Train only these rows, with commas between them.")] = "",
    tuned_in: Annotated[Path | None, typer.Option(help="Take the learning rates tuned in another --out.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, for all rows alike.")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Only write tables from what has been run.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what has been run and what is left.")] = False,
) -> None:
    """Train every row of a table of the paper under equal conditions, and write the table and its figures.

    What is finished is not run again: the same command goes on where it stopped. Start it several times to share the
    work between processes.

    Examples:

      prunnet compare table1 --preset omniglot-small --root omniglot/ --out runs/compare
      prunnet compare ablation --preset omniglot-small --root omniglot/ --out runs/compare --dry-run
      prunnet compare edge-popup --data cifar10 --root cifar10/ --out runs/edge-popup --seeds 0,1,2,3,4 --set epochs=100
      prunnet compare training --preset omniglot --root omniglot/ --out runs/whole --tuned-in runs/compare --seeds 0
    """
    from prunnet.errors import PrunNetError
    from prunnet.experiments import SUITES
    from prunnet.experiments import compare as run_comparison
    from prunnet.runs.settings import merge_assignments

    if suite == "list":
        for one in SUITES.values():
            say(f"{one.name}: {one.title} ({', '.join(one.rows)})")
        say("edge-popup: One-shot against iterative pruning of a random network (Appendix A)")
        return
    if out is None:
        raise PrunNetError("name the folder of the runs: --out runs/compare")
    options: dict[str, Any] = {"data": data, "root": root and str(root)}
    settings = merge_assignments({key: value for key, value in options.items() if value is not None}, set_ or [])
    chosen_seeds = _numbers(seeds, "--seeds", int)
    if suite == "edge-popup":
        for option, value in {"--preset": preset, "--rates": rates, "--rows": rows, "--tuned-in": tuned_in}.items():
            if value:
                raise PrunNetError(f"edge-popup has no {option}: it is one study, set by --data, --seeds and --set")
        _study(settings, out, chosen_seeds, say, dry_run=dry_run, report_only=report_only)
        return
    folder = run_comparison(
        suite,
        out=out,
        seeds=chosen_seeds,
        rates=None if rates is None else _numbers(rates, "--rates", float),
        preset=preset,
        rows=[name.strip() for name in rows.split(",") if name.strip()],
        tuned_in=tuned_in,
        dry_run=dry_run,
        report_only=report_only,
        say=say,
        **settings,
    )
    if not dry_run:
        say((folder / "table.md").read_text())
        say(f"written to {folder}")


def _study(
    settings: dict[str, Any],
    out: Path,
    seeds: list[int],
    say: Callable[[str], None],
    *,
    dry_run: bool,
    report_only: bool,
) -> None:
    from dataclasses import fields

    from prunnet.data import load_data
    from prunnet.errors import PrunNetError
    from prunnet.experiments.edge_popup import Study
    from prunnet.experiments.edge_popup_report import run_study

    options = settings.pop("data_options", {})
    data = load_data(settings.pop("data", "glyphs"), settings.pop("root", None), **options)
    known = [field.name for field in fields(Study)]
    if unknown := [name for name in settings if name not in known]:
        raise PrunNetError(f"edge-popup has no setting {unknown[0]!r}; it has {', '.join(known)}")
    study = Study(**settings, data_options=options)
    folder = run_study(data, out, study, seeds, say, dry_run=dry_run, report_only=report_only)
    if not dry_run:
        say((folder / "table.md").read_text())
        say(f"written to {folder}")


def _numbers(text: str, option: str, kind: Callable[[str], Number]) -> list[Number]:
    from prunnet.errors import PrunNetError

    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise PrunNetError(f"{option} takes {what} with commas between them; found {text!r}") from None
