"""`prunnet train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from prunnet.cli.arguments import parse_capacities, say

STOP_WITHIN = 1.8  # seconds from Ctrl-C to the end, whatever a step takes


def train(
    out: Annotated[Path | None, typer.Option(help="Run folder to write.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Built-in or benchmark name, folder per class, or manifest (prunnet data list).")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Where a benchmark lies on disk.")] = None,
    backbone: Annotated[str | None, typer.Option(help="Name of a timm model.")] = None,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="Start from timm's weights.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images.")] = None,
    capacities: Annotated[str | None, typer.Option(help="Such as .8,.6,.4,.2; or any, for all of them.")] = None,
    preset: Annotated[str | None, typer.Option(help="Settings by name: --settings lists them.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with settings, such as a run's config.yaml.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting; may be given several times.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at an unreadable image.")] = False,
    devices: Annotated[int, typer.Option(help="Processes on this machine, one per device.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and estimates, train nothing.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="List every setting and preset.")] = False,
) -> None:
    """Train one network whose subnetworks, at any capacity, embed into one space.

    Later ones win: --preset, --config, the options here, --set. Ctrl-C saves and stops; --resume goes on.

    Examples:

      prunnet train --out runs/a                                   built-in glyphs
      prunnet train --data photos/ --backbone mobilenetv2_100 --out runs/b --set lr=0.05
      prunnet train --preset paper-veri776 --root VeRi --out runs/veri --devices 4
    """
    if settings:
        _show_settings()
        return
    import os

    from prunnet.errors import PrunNetError
    from prunnet.runs.config import resolve
    from prunnet.runs.presets import PRESETS
    from prunnet.runs.settings import merge_assignments, read_yaml

    layers: dict[str, Any] = {}
    if preset is not None:
        if preset not in PRESETS:
            raise PrunNetError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
        layers |= PRESETS[preset]
    if config is not None:
        layers |= read_yaml(config)
    options = {"data": data, "root": root and str(root), "backbone": backbone, "epochs": epochs}
    options |= {"pretrained": pretrained or None, "strict": strict or None}
    layers |= {key: value for key, value in options.items() if value is not None}
    if capacities is not None:
        layers["capacities"] = "any" if capacities == "any" else parse_capacities(capacities)
    layers = merge_assignments(layers, set_ or [])
    if dry_run:
        _show_plan(resolve(layers))
        return
    if out is None:
        raise PrunNetError("name the run folder: --out runs/a")
    if devices > 1 and "LOCAL_RANK" not in os.environ:
        _launch(devices)
    from prunnet.training import train as run_training

    run = run_training(None, layers.pop("data", None), out=out, resume=resume, give_up_after=STOP_WITHIN, **layers)
    if os.environ.get("RANK", "0") == "0":
        from rich.console import Console

        Console().print(run.matrix)
        say(f"{run.folder}: model/ is the family, evaluation/ the matrix, plots/ the curves")


def _launch(devices: int) -> None:
    """The same command under torchrun, one process per device."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}", "-m"]
    raise typer.Exit(subprocess.run([*command, "prunnet", *sys.argv[1:]]).returncode)


def _show_settings() -> None:
    from rich.console import Console
    from rich.table import Table

    from prunnet.runs.config import TrainConfig
    from prunnet.runs.presets import PRESETS

    console = Console()
    table = Table(title="Settings (--set key=value)", title_justify="left")
    for heading in ("key", "default", "meaning"):
        table.add_column(heading)
    for name, field in TrainConfig.model_fields.items():
        table.add_row(name, str(field.default), field.description or "")
    console.print(table)
    table = Table(title="Presets (--preset name)", title_justify="left")
    table.add_column("name")
    table.add_column("settings")
    for name, preset in PRESETS.items():
        table.add_row(name, ", ".join(f"{key}={value}" for key, value in preset.items()))
    console.print(table)


def _show_plan(config: Any) -> None:

    from prunnet.costs.quantities import format_quantity
    from prunnet.runs.settings import to_yaml
    from prunnet.training.plan import plan

    say(to_yaml(config).rstrip())
    planned = plan(config, config.load_data())
    say(
        f"\n{planned.images:,} images of {planned.classes:,} classes, "
        f"{planned.steps:,} steps of {planned.passes} passes\n"
        f"{planned.parameters:,} parameters, {planned.connections:,} scores\n"
        f"memory: {format_quantity(planned.training_bytes, 'B')} beside the activations\n"
        f"time: {planned.seconds_per_step:.3f} s per step here, {planned.hours:.2f} h in all, "
        "loading and evaluation apart"
    )
