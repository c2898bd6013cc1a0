"""How many files a reader passes through: the source files whose functions run, on three paths through the package.

    python benchmarks/paths.py

Training: two steps on built-in data, up to the saved family; the matrix at its end is the third path. `.prun`: a family
packed, and 20 % of it unpacked. Matrix: every pair of three subnetworks. Modules are imported beforehand, so that only
what is called counts; files are listed in the order in which they are reached, as docs/architecture.md shows them.
"""

import inspect
import pkgutil
import sys
import tempfile
import textwrap
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

import prunnet
from prunnet import evaluate, load, pack, train
from prunnet.errors import MissingExtraError

SOURCE = Path(prunnet.__file__).parent
BACKBONE = {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]}
DATA = {"classes": 12, "images_per_class": 8, "size": 16}
CAPACITIES = (1.0, 0.4, 0.2)


def files_run(task: Callable[[], object], until: Callable[..., object] | None = None) -> list[str]:
    """The source files of which a function body runs in `task`, in the order in which they are reached, `until` one is
    called.
    """
    reached: dict[str, None] = {}

    def see(frame: FrameType, event: str, _: object) -> None:
        if until is not None and frame.f_code is until.__code__:
            sys.setprofile(None)
        elif event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # bodies of modules and classes are not
            reached.setdefault(frame.f_code.co_filename)

    sys.setprofile(see)
    try:
        task()
    finally:
        sys.setprofile(None)
    return [str(Path(file).relative_to(SOURCE)) for file in reached if Path(file).is_relative_to(SOURCE)]


for module in pkgutil.walk_packages(prunnet.__path__, "prunnet."):
    if not module.name.endswith("__main__"):
        with suppress(MissingExtraError):  # of stores that are not installed
            import_module(module.name)

with tempfile.TemporaryDirectory() as folder:
    run, packed = Path(folder) / "run", Path(folder) / "family.prun"
    settings = {
        "data_options": DATA, "backbone_options": BACKBONE, "input_size": (1, 16, 16), "embedding_dim": 16,
        "capacities": CAPACITIES[1:], "batch_size": 32, "epochs": 1, "adapt_batches": 2,
    }  # fmt: skip
    training = files_run(lambda: train("resnet18", "glyphs", out=run, quiet=True, **settings), until=evaluate)
    steps = len(prunnet.Run(run).steps)
    assert steps == 2, f"two steps were meant, there were {steps}"
    family, data = load(run), prunnet.Run(run).load_data()
    prun = files_run(lambda: (pack(family, packed, grid=CAPACITIES), load(packed, capacity=0.2)))
    matrix = files_run(lambda: evaluate(family, data, CAPACITIES))

for files in (training, prun, matrix):
    print(textwrap.fill(" → ".join(files), 110, break_on_hyphens=False), end="\n\n")
print(f"path_training: {len(training)}\npath_prun: {len(prun)}\npath_matrix: {len(matrix)}")
