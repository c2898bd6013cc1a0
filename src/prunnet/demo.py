"""The main job from beginning to end on built-in data, in stages that a second call finds done.

demo/run/              the run folder: model/ is the family, evaluation/ the matrix
demo/13-percent/       a subnetwork at a capacity that was never trained
demo/13-percent.onnx   the same for ONNX Runtime
demo/within-200kB/     the largest subnetwork within 200 kB
demo/within-200kB.prun the same, packed
demo/family.prun       every size in one file, each a prefix of it
demo/photos/           the queries and the gallery as pictures, a folder per character
demo/gallery/          the gallery, indexed by the dense network
demo/report.html       what came out
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from prunnet._files import remove_folder, replace_folder
from prunnet.costs import capacity_for
from prunnet.costs.quantities import format_quantity
from prunnet.data import RetrievalData, training_images
from prunnet.deploy.export import export, load_exported
from prunnet.errors import InterruptedDemoError, InterruptedRunError, MissingExtraError, PrunNetError
from prunnet.evaluation import CompatibilityMatrix, embed_images, relevance_of, score
from prunnet.network import Embeddings, Family, Subnetwork
from prunnet.network.capacity import format_capacity
from prunnet.report import MadeFile, write_report
from prunnet.report.summary import member_at
from prunnet.runs import Run, resolve
from prunnet.search import FolderIndex, images_in, index, open_encoder
from prunnet.search.asking import ask
from prunnet.storage import load
from prunnet.storage.prun import pack, prefix_bytes
from prunnet.training import train

NEVER_TRAINED = 0.13
BUDGET = "200kB"
ADAPTED_ON = 30  # batches of training images for a capacity without batch-norm statistics
FREE_BYTES = 50_000_000  # a run folder with its checkpoint, and the files made from it

SETTINGS: Mapping[str, Any] = {
    "data_options": {"classes": 300, "images_per_class": 20, "size": 32, "difficulty": 0.25},
    "backbone": "resnet18",
    "backbone_options": {
        "in_chans": 1,
        "channels": [16, 32, 64, 128],
        "layers": [1, 1, 1, 1],
        "stem_type": "deep",  # the usual stem has 64 channels, most of the time of so narrow a network
        "stem_width": 8,
    },
    "input_size": (1, 32, 32),
    "embedding_dim": 128,
    "capacities": (0.8, 0.6, 0.4, 0.2),
    "evaluate_capacities": (1.0, 0.8, 0.6, 0.4, 0.2, NEVER_TRAINED, 0.1, 0.05),
    "shared": "mean",
    "score_lr": 1.0,
    "distillation": 2.0,
    "epochs": 15,
    "batch_size": 64,
    "lr": 0.2,
    "adapt_batches": 60,
}
QUICK: Mapping[str, Any] = {
    **SETTINGS,
    "data_options": {"classes": 120, "images_per_class": 12, "size": 32, "difficulty": 0.2},
    "epochs": 8,
    "adapt_batches": 14,
}


def demo_settings(*, quick: bool, seed: int) -> dict[str, Any]:
    """What the demo trains with."""
    settings = QUICK if quick else SETTINGS
    return {**settings, "seed": seed, "data_options": {**settings["data_options"], "seed": seed}}


def run_demo(out: Path, settings: Mapping[str, Any], console: Console) -> Path:
    """Go through all stages in folder `out`; return the report."""
    _check_folder(out)
    try:
        return _Demo(out, settings, console).run()
    except InterruptedRunError:
        raise InterruptedDemoError("stopped, and saved what was trained; the same command goes on from there") from None
    except KeyboardInterrupt:
        raise InterruptedDemoError("stopped; the same command goes on after the last finished stage") from None


def _check_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PrunNetError(f"{out} cannot be written ({error.strerror}); choose another folder with --out") from None
    free = shutil.disk_usage(out).free
    if free < FREE_BYTES:
        needed = format_quantity(FREE_BYTES, "B")
        raise PrunNetError(
            f"{out} has {format_quantity(free, 'B')} free, the demo needs {needed}; choose another --out"
        )


class _Demo:
    def __init__(self, out: Path, settings: Mapping[str, Any], console: Console) -> None:
        self.out, self.console = out, console
        self.settings = dict(settings)
        self.trained = Run(out / "run")
        self.made: list[MadeFile] = []
        self._stages = 0

    def run(self) -> Path:
        config = resolve(self.settings)
        if self.trained.exists and self.trained.config != config:
            raise PrunNetError(f"{self.out} holds a demo with other settings; choose another folder with --out")
        with self._stage("data", "Draw characters of many scripts; what is searched later is never seen in training."):
            data = config.load_data()
            assert data.train is not None
            self._say(
                f"{len(data.train):,} images of {data.train.classes} characters to learn from, {len(data.query):,} "
                f"queries and {len(data.gallery):,} gallery images of {data.query.classes} others"
            )
        sizes = ", ".join(map(format_capacity, self.settings["capacities"]))
        with self._stage("train", f"One network, trained once: dense and at {sizes} of its connections together."):
            net, matrix = self._train(data)
        with self._stage("matrix", "Who can search whose gallery: a row asks, a column indexed."):
            self.console.print(matrix)
            self._promise(matrix, 0.2)
            self._promise(matrix, NEVER_TRAINED)
        with self._stage("prune", "A new device costs a prune, not a training: by capacity, or by what it can carry."):
            small = self._prune(net, data, NEVER_TRAINED, f"{100 * NEVER_TRAINED:.0f}-percent")
            within = self._prune(net, data, capacity_for(net, max_bytes=BUDGET), f"within-{BUDGET}")
        with self._stage("pack", "Every size in one file: a device downloads a prefix, and more of it to upgrade."):
            self._optional(lambda: self._pack(net, data, within))
        with self._stage("export", "The 13 % network for ONNX Runtime, checked against torch before it gets its name."):
            self._optional(lambda: self._export(small))
        with self._stage("search", "The small network asks for unseen characters in the gallery of the dense one."):
            self._search(net.subnetwork(1.0), small, within, data)
        with self._stage("index", "The same gallery from files: indexed once, kept on disk, asked by the packed 13 %."):
            self._index(net, small, data)
        with self._stage("report", "Everything above in one file for any browser, no network needed."):
            return write_report(
                self.trained, self.out / "report.html", capacity=NEVER_TRAINED, data=data, made=self.made
            )

    @contextmanager
    def _stage(self, name: str, why: str) -> Iterator[None]:
        self._stages += 1
        self.console.print(f"\n[bold cyan]{self._stages}  {name}[/]  {why}", highlight=False)
        began = time.monotonic()
        yield
        self._say(f"{time.monotonic() - began:.1f} s", "dim")

    def _say(self, text: str, style: str = "") -> None:
        self.console.print(f"   {text}", style=style, markup=False, highlight=False, soft_wrap=True)

    def _train(self, data: RetrievalData) -> tuple[Family, CompatibilityMatrix]:
        if self.trained.state == "done":
            self._say("done before")
        else:
            train(None, data, out=self.trained.folder, resume=self.trained.exists, **self.settings)
        return self.trained.load_network(), self.trained.matrix

    def _promise(self, matrix: CompatibilityMatrix, capacity: float) -> None:
        dense, cross = matrix.at(1.0, 1.0), matrix.at(capacity, 1.0)
        how = ", never trained" if capacity == NEVER_TRAINED else ""
        self._say(
            f"{format_capacity(capacity)}{how}: {100 * cross:.1f} {matrix.metric} in the dense gallery, "
            f"{100 * cross / dense:.1f} % of what the dense network reaches",
            "bold",
        )

    def _prune(self, net: Family, data: RetrievalData, capacity: float, name: str) -> Subnetwork:
        folder = self.out / name
        if self._is_made(folder / "model.safetensors"):
            self._say(f"{folder}: done before")
            stored = load(folder)
            assert isinstance(stored, Subnetwork)
            return stored
        small = member_at(net, capacity, data, ADAPTED_ON)
        self._say(f"{small.save(folder)}: {format_capacity(capacity)} of the connections, batch norm adapted")
        return small

    def _pack(self, net: Family, data: RetrievalData, within: Subnetwork) -> None:
        family = self._packed("family.prun", net, data, (1.0, *net.capacities, NEVER_TRAINED))
        first = format_quantity(prefix_bytes(family, NEVER_TRAINED), "B")
        self._made(family, f"every size; its first {first} are the {format_capacity(NEVER_TRAINED)} network")
        file = self._packed(f"within-{BUDGET}.prun", net, data, (within.capacity,))
        self._made(file, f"the {format_capacity(within.capacity)} network, packed")

    def _packed(self, name: str, net: Family, data: RetrievalData, grid: tuple[float, ...]) -> Path:
        file = self.out / name
        if self._is_made(file):
            return file
        return pack(net, file, grid=grid, loader=training_images(data, net.preprocessing), adapt_batches=ADAPTED_ON)

    def _export(self, small: Subnetwork) -> None:
        file = self.out / "13-percent.onnx"
        exported = load_exported(file) if self._is_made(file) else export(small, file)
        self._made(file, f"the {format_capacity(exported.capacity)} network, equal to torch to 1e-4, zeros stored")

    def _optional(self, make: Callable[[], None]) -> None:
        try:
            make()
        except MissingExtraError as error:
            self._say(f"left out: {error}")

    def _made(self, file: Path, meaning: str) -> None:
        self.made.append(MadeFile(file, meaning, file.stat().st_size))
        self._say(f"{file}, {format_quantity(file.stat().st_size, 'B')}: {meaning}")

    def _is_made(self, file: Path) -> bool:
        """Whether `file` was made after the family was."""
        family = self.trained.model / "model.safetensors"
        return file.exists() and file.stat().st_mtime >= family.stat().st_mtime

    def _search(self, dense: Subnetwork, small: Subnetwork, within: Subnetwork, data: RetrievalData) -> None:
        store = self.trained.embeddings
        gallery = embed_images(dense, data.gallery, store=store, description="embedding gallery")
        relevance = relevance_of(data)
        for network in (dense, small, within):
            query: Embeddings = embed_images(network, data.query, store=store, description="embedding query")
            scores = score(query.vectors, gallery.vectors, relevance, ("mAP", "Recall@1", "Recall@5"))
            figures = ", ".join(f"{name} {100 * float(np.nanmean(values)):.1f}" for name, values in scores.items())
            self._say(f"queries by {format_capacity(network.capacity):>7}, gallery by 100 %: {figures}")

    def _index(self, net: Family, small: Subnetwork, data: RetrievalData) -> None:
        photos = self._photos(data)
        place = self.out / "gallery"
        if place.exists() and FolderIndex(place).family_id != net.family_id:
            remove_folder(place)
        done = index(place, net.subnetwork(1.0), images_in(photos / "gallery"), made_with=str(self.trained.folder))
        gallery, packed = FolderIndex(place), self.out / "family.prun"
        self._say(f"{place}, {format_quantity(gallery.bytes, 'B')}: {done}, {len(gallery):,} vectors by 100 %")
        asking = open_encoder(packed, NEVER_TRAINED) if packed.exists() else small
        asked = ask(gallery, asking, images_in(photos / "query"), k=5)
        assert asked.mean_average_precision is not None
        who = packed.name if packed.exists() else "13-percent/"
        self._say(
            f"asked by {format_capacity(asking.capacity)} of {who}: mAP {100 * asked.mean_average_precision:.1f} for "
            f"{len(asked.queries):,} queries"
        )
        query, model = asked.queries[0].path, f"{packed} --capacity {NEVER_TRAINED:g}"
        self._say("try it, with one of these pictures or your own:")
        shown = f"prunnet search {place} {os.path.relpath(query or '')} --model {model} -k 5 --open"
        self._say(shown if packed.exists() else shown.replace(model, str(self.out / "13-percent")), "bold")
        self._say("or draw characters on a page that runs the small network itself:")
        self._say(f"prunnet serve {place} --open", "bold")

    def _photos(self, data: RetrievalData) -> Path:
        """Queries and gallery as files, a folder per class."""
        photos = self.out / "photos"
        if photos.exists():
            return photos
        with replace_folder(photos) as staged:
            for part, images in (("query", data.query), ("gallery", data.gallery)):
                for place, id in enumerate(images.ids):
                    file = staged / part / f"{id}.png"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    images.image(place).save(file)
        return photos
