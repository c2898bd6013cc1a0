"""An exported file, run in the runtime it was made for, and what travels inside it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from prunnet import __version__
from prunnet._checked import file_digest
from prunnet.deploy.export import onnx_format, openvino_format, pt2_format
from prunnet.deploy.export.tracing import Run
from prunnet.errors import ExportError
from prunnet.network import Embeddings, Preprocessing, Subnetwork
from prunnet.network.capacity import check_capacity
from prunnet.network.preprocessing import Picture, check_images

Precision = Literal["fp32", "int8"]


@dataclass(frozen=True)
class Metadata:
    """Read back by `load_exported`; a device without prunnet finds the same text under the keys of `as_text`."""

    family_id: str
    capacity: float
    preprocessing: Preprocessing
    precision: Precision = "fp32"

    @classmethod
    def of(cls, subnetwork: Subnetwork, precision: Precision) -> "Metadata":
        return cls(subnetwork.family_id, subnetwork.capacity, subnetwork.preprocessing, precision)

    def as_text(self) -> dict[str, str]:
        return {
            "prunnet_version": __version__,
            "family_id": self.family_id,
            "capacity": repr(self.capacity),
            "preprocessing": json.dumps(vars(self.preprocessing)),
            "precision": self.precision,
        }

    @classmethod
    def from_text(cls, text: Mapping[str, str], file: object) -> "Metadata":
        try:
            precision: Precision = "int8" if text["precision"] == "int8" else "fp32"
            preprocessing = Preprocessing(**json.loads(text["preprocessing"]))
            return cls(text["family_id"], check_capacity(float(text["capacity"])), preprocessing, precision)
        except (KeyError, ValueError, TypeError) as error:
            raise ExportError(
                f"{file} was not written by prunnet.export: its metadata is missing or foreign"
            ) from error


FORMATS: dict[str, ModuleType] = {"onnx": onnx_format, "pt2": pt2_format, "openvino": openvino_format}


class ExportedNetwork:
    """Maps preprocessed images to embeddings as its subnetwork did."""

    def __init__(self, files: Sequence[Path], run: Run, metadata: Metadata) -> None:
        self.files = tuple(files)
        self.metadata = metadata
        self._run = run

    @property
    def capacity(self) -> float:
        return self.metadata.capacity

    @property
    def family_id(self) -> str:
        return self.metadata.family_id

    @property
    def preprocessing(self) -> Preprocessing:
        return self.metadata.preprocessing

    @property
    def bytes(self) -> int:
        """Size of its files."""
        return sum(file.stat().st_size for file in self.files)

    def __reduce__(self) -> tuple[Callable[[Path], "ExportedNetwork"], tuple[Path]]:
        """A process that it is sent to opens the file anew."""
        return load_exported, (self.files[0].resolve(),)

    def __call__(self, images: Tensor) -> Tensor:
        return self._run(check_images(images, self.preprocessing).float().contiguous())

    def encode(self, images: Sequence[Picture] | Picture, batch_size: int = 64) -> Embeddings:
        """Embed pictures for search, as `Subnetwork.encode` does."""
        vectors = [self(batch) for batch in self.preprocessing.batches(images, batch_size)]
        return Embeddings(torch.cat(vectors), self.family_id, self.capacity)


def load_exported(path: str | PathLike[str]) -> ExportedNetwork:
    """Open what `prunnet.export` wrote, in onnxruntime or OpenVINO, by its suffix, if it matches its checksums.

    A `.pt2` archive is not opened: `torch.export.load` unpickles, so a crafted one could run code. Whoever trusts a
    file calls that function; torch needs nothing else.
    """
    target = Path(path)
    module = FORMATS[format_of(target, None)]
    files = {suffix: target.with_suffix(suffix) for suffix in module.SUFFIXES}
    if module is pt2_format and target.is_file():
        raise ExportError(f"{target} is not opened, since it may run code: call torch.export.load if you trust it")
    check_digests(target, files)
    return open_files(module, files, target)


def digests_file(target: Path) -> Path:
    """`small.onnx` → `small.onnx.sha256`, which `sha256sum -c` reads as well."""
    return target.with_name(f"{target.name}.sha256")


def digests(target: Path, files: Mapping[str, Path]) -> str:
    """A line for each of `files`, under the name it has in the end."""
    return "".join(f"{file_digest(file)}  {target.with_suffix(suffix).name}\n" for suffix, file in files.items())


def check_digests(target: Path, files: Mapping[str, Path]) -> None:
    """Refuse files that are not what was exported."""
    for file in (*files.values(), digests_file(target)):
        if not file.is_file():
            raise ExportError(f"{file} does not exist; what belongs to an exported network is copied together")
    if digests_file(target).read_bytes() != digests(target, files).encode():
        raise ExportError(
            f"{target} is damaged: it does not match {digests_file(target).name}; export or copy it again"
        )


def open_files(module: ModuleType, files: Mapping[str, Path], named: Path) -> ExportedNetwork:
    """`files` by suffix, which may still have temporary names; errors speak of `named`."""
    for suffix, file in files.items():
        if not file.is_file():
            raise ExportError(f"{named.with_suffix(suffix)} does not exist")
    run, text = module.read(files)
    return ExportedNetwork(list(files.values()), run, Metadata.from_text(text, named))


def format_of(path: Path, name: str | None) -> str:
    """The format called `name`, or the one that the suffix of `path` says."""
    by_suffix = {module.SUFFIXES[0]: key for key, module in FORMATS.items()}
    known = ", ".join(f"{key} ({suffix})" for suffix, key in by_suffix.items())
    if name is None:
        if path.suffix not in by_suffix:
            raise ExportError(f"the suffix of {path} names no format; known are {known}")
        return by_suffix[path.suffix]
    if name not in FORMATS:
        raise ExportError(f"unknown format {name!r}; known are {known}")
    if path.suffix != FORMATS[name].SUFFIXES[0]:
        raise ExportError(f"{path} does not end in {FORMATS[name].SUFFIXES[0]}, as the format {name} asks")
    return name
