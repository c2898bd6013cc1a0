"""What folders of networks have in common: a `config.json` that says what they are, and sealed tensors tied to it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from prunnet._checked import file_digest, load_tensors, save_tensors, seal, unseal
from prunnet._files import replace_folder, restore
from prunnet.errors import DamagedError, FamilyError
from prunnet.storage.documents import Document, parse


def saved_tensors(module: nn.Module) -> dict[str, Tensor]:
    """What a file holds of `module`, as its own tensors: shared ones once, under their first name."""
    saved = module.state_dict()
    named = dict([*module.named_parameters(), *module.named_buffers()])
    return {name: tensor.detach() for name, tensor in named.items() if name in saved}


def check_fit(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse tensors that are not those of the network."""
    advice = "the backbone given is another one, or the folder is damaged"
    for name, tensor in expected.items():
        if name not in stored:
            raise FamilyError(f"{folder} lacks the tensor {name}; {advice}")
        if stored[name].shape != tensor.shape:
            shapes = f"{tuple(stored[name].shape)}, the network expects {tuple(tensor.shape)}"
            raise FamilyError(f"{folder}: {name} has shape {shapes}; {advice}")
        if stored[name].is_floating_point() != tensor.is_floating_point():
            raise FamilyError(f"{folder}: {name} is {stored[name].dtype}, the network expects {tensor.dtype}; {advice}")
    if extra := next((name for name in stored if name not in expected), None):
        raise FamilyError(f"{folder} has the tensor {extra}, which the network does not know; {advice}")


@torch.no_grad()
def fill(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor], folder: Path) -> None:
    """Copy `stored` into the tensors of a module, if they are those that it `expected`."""
    check_fit(expected, stored, folder)
    for name, tensor in expected.items():
        tensor.copy_(stored[name])


CONFIG, TENSORS = "config.json", "model.safetensors"
_FIRST_SEALED = 2  # the first version whose files carry checksums

D = TypeVar("D", bound=Document)


@dataclass(frozen=True)
class Config(Generic[D]):
    """A `config.json` as it was read."""

    document: D
    sealed: bool
    """Whether its version carries checksums."""
    digest: str


def write_folder(folder: Path, document: Document, tensors: Mapping[str, Tensor]) -> None:
    """`config.json`, and `model.safetensors` with its seal, the family's id and the checksum of the config."""
    try:
        with replace_folder(folder) as staged:
            write_config(staged, document)
            stamp = {"family_id": document.family_id, "config": file_digest(staged / CONFIG)}
            save_tensors(tensors, staged / TENSORS, stamp)
    except (OSError, SafetensorError) as error:  # the second is how safetensors says that the disk is full
        raise FamilyError(f"{folder} could not be written ({error}); what was there before is unchanged") from error


def write_config(staged: Path, document: Document) -> None:
    content = document.model_dump()
    text = json.dumps(seal(content) if document.alone else content, indent=2)
    (staged / CONFIG).write_text(text + "\n", encoding="utf-8")


def read_folder(folder: Path, config: Config[D]) -> dict[str, Tensor]:
    """The tensors beside `config`, if both are what was written together."""
    tensors, stamp = load_tensors(folder / TENSORS, sealed=config.sealed)
    if config.sealed and stamp.get("config") != config.digest:
        raise DamagedError(f"{folder / CONFIG} is damaged: it is not the one that was saved with the weights")
    own = config.document.family_id
    if stamp.get("family_id", own) != own:
        raise DamagedError(f"{folder} mixes families: its config.json says {own!r}, its weights {stamp['family_id']!r}")
    return tensors


def read_config(folder: Path, kind: type[D]) -> Config[D]:
    """The `config.json` of a folder of this `kind`, or one line on what is wrong with it."""
    text, content = _read_stamped(folder, kind)
    file, sealed = folder / CONFIG, content["version"] >= _FIRST_SEALED
    damaged = f"{file} is damaged"
    if sealed and kind.alone:
        content = unseal(content, file)
    older = content["version"] < kind.newest
    document = parse(kind, kind.upgraded(content) if older else content, damaged)
    return Config(document, sealed, hashlib.sha256(text).hexdigest())


def _read_stamped(folder: Path, kind: type[Document]) -> tuple[bytes, dict[str, Any]]:
    """A `config.json` that says it is of this `kind`, in a version that can be read."""
    restore(folder)
    file, name = folder / CONFIG, kind.name
    if not file.is_file():
        raise FamilyError(f"{folder} is no {name} folder: it has no config.json")
    try:
        text = file.read_bytes()
        content: Any = json.loads(text)
    except (ValueError, OSError, RecursionError) as error:
        raise FamilyError(f"{file} is damaged ({error}); save the {name} again") from error
    if not isinstance(content, dict) or content.get("format") != f"prunnet-{name}":
        raise FamilyError(f"{folder} is no {name} folder: its config.json does not say 'prunnet-{name}'")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= kind.newest:
        raise FamilyError(
            f"{folder} has format version {version!r:.40}, this prunnet reads up to {kind.newest}; upgrade prunnet"
        )
    return text, content


def check_replaceable(folder: Path, kind: type[Document]) -> None:
    """Refuse to write over anything but an empty folder or an earlier one of the same kind."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        _read_stamped(folder, kind)
    except FamilyError:
        raise FamilyError(f"{folder} exists and is no {kind.name} folder; choose another path") from None
