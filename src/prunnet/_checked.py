"""Tensors and documents on disk, each with a checksum that is compared before anything is used.

A tensor file is a safetensors file whose metadata holds the SHA-256 of everything else in it: names, types, shapes,
values and the rest of the metadata, so that no bit of it changes unnoticed. A document is a JSON object sealed alike.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from prunnet.errors import DamagedError, first_line

SEAL = "sha256"


def save_tensors(tensors: Mapping[str, Tensor], file: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write `tensors` with their seal; the caller sees to it that the file appears at once."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    told = dict(metadata or {})
    save_file(whole, file, metadata={**told, SEAL: _digest(whole, told)})
    _settle(file)


def _settle(file: Path) -> None:
    """The metadata in order, which safetensors leaves to chance: the same network is the same file."""
    with file.open("r+b") as content:
        length = int.from_bytes(content.read(8), "little")
        header = json.loads(content.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) <= length:
            content.seek(8)
            content.write(text.ljust(length))


def load_tensors(file: Path, *, sealed: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file, if it is what was written; one without a seal only if not `sealed`."""
    try:
        with safe_open(file, "pt") as content:
            metadata = dict(content.metadata() or {})
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
    except FileNotFoundError:
        raise DamagedError(f"{file} is missing; the folder was copied without it") from None
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise DamagedError(
            f"{file} is truncated or damaged ({first_line(error)}); copy it again, or make it again"
        ) from None
    seal = metadata.pop(SEAL, None)
    if seal is None and sealed:
        raise DamagedError(f"{file} has no checksum, so it was not written whole by prunnet; make it again")
    if seal is not None and seal != _digest(tensors, metadata):
        raise DamagedError(f"{file} is damaged: it does not match its checksum; copy it again, or make it again")
    return tensors, metadata


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """One pass over the bytes."""
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """`document` with its checksum as the last entry."""
    return {**document, SEAL: _document_digest(document)}


def unseal(content: Any, name: object) -> dict[str, Any]:
    """A sealed document without its checksum, if it is what was sealed."""
    if not isinstance(content, dict) or SEAL not in content:
        raise DamagedError(f"{name} has no checksum, so it was not written whole by prunnet; make it again")
    document = {key: value for key, value in content.items() if key != SEAL}
    try:
        matches = content[SEAL] == _document_digest(document)
    except RecursionError:
        matches = False
    if not matches:
        raise DamagedError(f"{name} is damaged: it does not match its checksum; copy it again, or make it again")
    return document


def _document_digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def file_digest(file: Path) -> str:
    """The SHA-256 of a whole file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
