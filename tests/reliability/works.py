"""What processes that are killed were doing. Apart from the tests, so that such a process imports nothing else."""

import warnings
from pathlib import Path
from typing import Any

from prunnet._files import remove_folder, replace_folder, write_text

TINY: dict[str, Any] = {
    "backbone": "resnet18",
    "backbone_options": {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]},
    "input_size": (1, 16, 16),
    "embedding_dim": 8,
    "data_options": {"classes": 8, "images_per_class": 6, "size": 16},
    "batch_size": 12,
    "epochs": 2,
    "checkpoint_seconds": 0.0,
}


def write_a_file(file: Path, text: str) -> None:
    write_text(file, text)


def write_a_folder(folder: Path, text: str) -> None:
    with replace_folder(folder) as staged:
        (staged / "first").write_text(text)
        (staged / "inner").mkdir()
        write_text(staged / "inner" / "second", text)


def remove_a_folder(folder: Path) -> None:
    remove_folder(folder)


def train(root: Path, acknowledged: Path | None = None) -> None:
    """Begin the run, or go on with it; every checkpoint that is saved is written down outside of it."""
    _quiet()
    import prunnet
    from prunnet.training import trainer

    save = trainer.save_checkpoint

    def acknowledge(folder: Path, step: int, *state: Any) -> Path:
        path = save(folder, step, *state)
        if acknowledged is not None:
            acknowledged.write_text(str(step))
        return path

    trainer.save_checkpoint = acknowledge
    run = prunnet.Run(root / "run")
    settings: dict[str, Any] = {} if run.exists else {**TINY, "capacities": (0.5,)}
    prunnet.train(out=run.folder, resume=run.exists, quiet=True, **settings)


def pack(root: Path) -> None:
    _command("pack", root / "run", "--out", root / "family.prun", "--grid", ".5,1")


def prune(root: Path) -> None:
    _command("prune", root / "run", "--capacity", 0.5, "--out", root / "small")


def evaluate(root: Path) -> None:
    _command("evaluate", root / "run", "--capacities", "1,.5", "--metric", "Recall@1", "--out", root / "evaluation")


def compare(root: Path) -> None:
    _quiet()
    import prunnet
    from prunnet.experiments import Row, Suite

    settings = {key: value for key, value in TINY.items() if key != "epochs"}
    rows = {"one": Row({"capacities": (0.5,)})}
    suite = Suite("one", "One row", {"one": "One"}, ((1.0, 1.0), (0.5, 1.0)), reference="one", definitions=rows)
    prunnet.compare(suite, out=root / "compare", seeds=(0,), rates=(0.1,), say=lambda _: None, epochs=1, **settings)


def _command(*arguments: object) -> None:
    """What the command line does, in this process."""
    _quiet()
    from typer.testing import CliRunner

    from prunnet.cli.command import app

    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception


def _quiet() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
