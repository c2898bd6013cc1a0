"""The `prunnet` command: one sub-command per verb of the Python API."""

import errno
import io
import os
import sys
from typing import Annotated

import typer

from prunnet import __version__
from prunnet.cli.bench import bench
from prunnet.cli.compare import compare
from prunnet.cli.data import app as data
from prunnet.cli.demo import demo
from prunnet.cli.evaluate import evaluate
from prunnet.cli.export import export
from prunnet.cli.index import app as index
from prunnet.cli.info import info
from prunnet.cli.pack import pack, unpack
from prunnet.cli.prune import prune
from prunnet.cli.report import report
from prunnet.cli.search import search
from prunnet.cli.serve import serve
from prunnet.cli.train import train
from prunnet.errors import PrunNetError, first_line

app = typer.Typer(
    name="prunnet",
    help="Compatible visual search on every device from one trained network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, evaluate, compare, report, prune, export, pack, unpack, bench, info, search, serve):
    app.command()(command)
app.add_typer(index, name="index")
app.add_typer(data, name="data")

_MORE_SPACE = "free some space, or choose another folder"
_PERMISSION = "check its permissions, or choose another folder"
ADVICE = {  # by the system's words, since they also reach us inside the messages of others
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _MORE_SPACE),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _PERMISSION),
}


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"prunnet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: what a user can mend ends in one line and exit code 2, Ctrl-C in exit code 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path need not be text
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]  # wherever it stands
    try:
        app(arguments)
    except SystemExit as ended:
        if ended.code == 130:  # so typer ends at Ctrl-C, without a word
            print("prunnet: stopped", file=sys.stderr)
        raise
    except _mendable() as error:
        ours = isinstance(error, ImportError) and (error.name or "").startswith("prunnet")
        if ours or "--debug" in sys.argv:  # a mistake of ours is nothing a user can mend
            raise
        print(f"prunnet: {_one_line(error)}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))


def _mendable() -> tuple[type[Exception], ...]:
    """What a user can do something about; safetensors, once loaded, has an error of its own for a full disk."""
    loaded = sys.modules.get("safetensors")
    return (PrunNetError, OSError, ImportError, UnicodeError, *(() if loaded is None else (loaded.SafetensorError,)))


def _one_line(error: Exception) -> str:
    if isinstance(error, ImportError) and not isinstance(error, PrunNetError):
        return (
            f"{first_line(error)}; PrunNet is not completely installed: `make demo` or `pip install .` in its folder "
            "does it, with a Python (3.11 or newer, 64 bit) for which there is a torch wheel"
        )
    text = first_line(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    advice = next((advice for number, advice in ADVICE.items() if os.strerror(number) in text), "")
    return text if advice in text else f"{text}; {advice}"
