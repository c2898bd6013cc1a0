"""The `prunnet` command: one sub-command per verb of the Python API."""

import sys
from typing import Annotated

import typer

from prunnet import __version__
from prunnet.cli.bench import bench
from prunnet.cli.data import app as data
from prunnet.cli.demo import demo
from prunnet.cli.evaluate import evaluate
from prunnet.cli.export import export
from prunnet.cli.info import info
from prunnet.cli.pack import pack, unpack
from prunnet.cli.prune import prune
from prunnet.cli.report import report
from prunnet.cli.train import train

app = typer.Typer(
    name="prunnet",
    help="Compatible visual search on every device from one trained network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, evaluate, report, prune, export, pack, unpack, bench, info):
    app.command()(command)
app.add_typer(data, name="data")

_debug = False


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"prunnet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    global _debug
    _debug = debug


def main() -> None:
    """Run the command line: errors made on purpose end in one line and exit code 2, Ctrl-C in exit code 130."""
    from prunnet.errors import PrunNetError

    try:
        app()
    except (PrunNetError, OSError) as error:
        if _debug:
            raise
        print(f"prunnet: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("prunnet: stopped", file=sys.stderr)
        sys.exit(130)
