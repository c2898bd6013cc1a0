"""Exported files: damaged, so that their checksums refuse them, or forged under checksums that fit.

What is forged is opened in a process of its own, since the runtimes may end the process that opens it.
"""

import os
import signal
import zipfile
from pathlib import Path
from random import Random

import torch

from fuzzing.harness import WrongError
from fuzzing.mutations import damaged, pickled
from fuzzing.networks import images, network
from prunnet.deploy.export import export, load_exported
from prunnet.deploy.export.exported import digests, digests_file
from prunnet.errors import PrunNetError


class Exports:
    name = "exports"
    megabytes = 256

    def __init__(self, canary: Path) -> None:
        folder = canary.parent / "exports"
        folder.mkdir()
        small = network().subnetwork(0.5)
        self._targets = {".onnx": folder / "small.onnx", ".xml": folder / "small.xml"}
        for target in self._targets.values():
            export(small, target)
        self._expected = {suffix: load_exported(target)(images()) for suffix, target in self._targets.items()}
        self._archive = folder / "small.pt2"
        with zipfile.ZipFile(self._archive, "w") as archive:
            for name in ("data.pkl", "archive/data.pkl", "models/model.json", "data/weights/weights_0.pt"):
                archive.writestr(name, pickled(canary))

    def attempt(self, rng: Random) -> str:
        suffix = rng.choice(sorted(self._targets))
        target = self._targets[suffix]
        if rng.random() < 0.01:
            load_exported(self._archive)
            raise WrongError("an archive that may run code was opened")
        files = [target, *([target.with_suffix(".bin")] if suffix == ".xml" else []), digests_file(target)]
        file = rng.choice(files)
        before = file.read_bytes(), digests_file(target).read_bytes()
        try:
            file.write_bytes(damaged(before[0], rng))
            if file != digests_file(target) and rng.random() < 0.003:
                parts = {part.suffix: part for part in files[:-1]}
                digests_file(target).write_text(digests(target, parts))
                return _in_a_process_of_its_own(target)
            opened = load_exported(target)
            if not torch.equal(opened(images()), self._expected[suffix]):
                raise WrongError("silently different")
            return "same"
        finally:
            file.write_bytes(before[0])
            digests_file(target).write_bytes(before[1])


def _in_a_process_of_its_own(target: Path) -> str:
    child = os.fork()
    if not child:
        try:
            load_exported(target)(images())
        except PrunNetError:
            os._exit(1)
        except BaseException:
            os._exit(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"forged, ended its process by {signal.Signals(os.WTERMSIG(status)).name}"
    return {0: "forged", 1: "refused"}.get(os.WEXITSTATUS(status), "forged, refused by its runtime")
