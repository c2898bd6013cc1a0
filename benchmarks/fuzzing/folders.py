"""Family, members and subnetwork folders: any file damaged, or config and tensors forged under checksums that fit."""

import json
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

import prunnet
from fuzzing.harness import WrongError
from fuzzing.mutations import as_json, damaged, forged, pickled, recipes
from fuzzing.networks import check_same, check_sound, embedding, network
from prunnet._checked import SEAL, file_digest, load_tensors, save_tensors, seal
from prunnet.narrow import Members
from prunnet.narrow.narrowing import narrow


class Folders:
    name = "folders"
    megabytes = 512  # of 100,000 folders: safetensors 0.8 keeps two integers for every tensor that it reads

    def __init__(self, canary: Path) -> None:
        self._canary, self._recipes = canary, recipes(canary)
        root = canary.parent / "folders"
        net = network()
        dense = net.subnetwork(1.0)
        families = {
            "family": net,
            "filters": network(selection=prunnet.Filters()),
            "members": Members([dense, narrow(dense, 0.5)[0]]),
            "subnetwork": net.subnetwork(0.5),
        }
        self._folders = [prunnet.save(family, root / name) for name, family in families.items()]
        self._expected = [embedding(prunnet.load(folder), 0.5) for folder in self._folders]

    def attempt(self, rng: Random) -> str:
        index = rng.randrange(len(self._folders))
        folder = self._folders[index]
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        before = {file: file.read_bytes() for file in files}
        try:
            if rng.random() < 0.9:
                read = [file for file in files if file.suffix != ".md"]
                self._damage(rng.choice(files if rng.random() < 0.02 else read), files, rng)
                return check_same(prunnet.load(folder), self._expected[index], 0.5)
            config = rng.choice([file for file in files if file.name == "config.json"])
            claims = self._forge(config, rng)
            net = prunnet.load(folder)
            if config.parent == folder and claims != net.family_id:
                raise WrongError("a network that is not what its config says")
            return check_sound(net, max(net.available((1.0, *net.capacities))))
        finally:
            shutil.rmtree(folder)
            for file, content in before.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)

    def _damage(self, file: Path, files: list[Path], rng: Random) -> None:
        way = rng.random()
        if way < 0.02:
            file.unlink()
        elif way < 0.04:
            file.write_bytes(pickled(self._canary))
        elif way < 0.06:
            file.write_bytes(rng.choice(files).read_bytes())
        elif way < 0.15 and file.suffix == ".safetensors":
            _forge_header(file, rng)
        else:
            file.write_bytes(damaged(file.read_bytes(), rng))

    def _forge(self, file: Path, rng: Random) -> Any:
        """Another config, or other tensors, under new checksums; says what the config names as its family."""
        weights, content = file.with_name("model.safetensors"), json.loads(file.read_text())
        sealed = content.pop(SEAL, None) is not None
        tensors, stamp = _tensors(weights) if weights.is_file() else ({}, {})
        if rng.random() < 0.75 or not tensors:
            content = forged(content, rng, self._recipes)
        else:
            tensors = _forged_tensors(tensors, rng)
        unsealed = rng.random() < 0.1 and isinstance(content, dict)  # as in version 1
        if unsealed:
            content["version"], stamp = 1, {}
        file.write_bytes(as_json(seal(content) if sealed and isinstance(content, dict) and not unsealed else content))
        family_id = content.get("family_id") if isinstance(content, dict) else None
        if tensors:
            told = stamp and {**stamp, "family_id": str(family_id), "config": file_digest(file)}
            save_tensors(tensors, weights, told)
        return family_id


def _tensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    tensors, stamp = load_tensors(file)
    return {name: tensor.clone() for name, tensor in tensors.items()}, stamp


def _forged_tensors(tensors: dict[str, Tensor], rng: Random) -> dict[str, Tensor]:
    """Other shapes, types and names; values stay finite, since any finite ones are some network's."""
    name = rng.choice(sorted(tensors))
    tensor = tensors.pop(name)
    match rng.randrange(8):
        case 0:
            return {**tensors, name: tensor.reshape(-1)}
        case 1:
            return {**tensors, name: tensor.to(rng.choice((torch.float16, torch.bfloat16, torch.float64)))}
        case 2:
            return {**tensors, name: tensor.to(rng.choice((torch.int64, torch.uint8, torch.bool, torch.complex64)))}
        case 3:
            return {**tensors, rng.choice(("extra", "", f"{name}\n", f"{name}.weight", "é")): tensor}
        case 4:
            return {**tensors, name: torch.zeros(rng.choice(((0,), (), (1,), (3, 0, 2), (1,) * 9)))}
        case 5:
            return {**tensors, name: tensor[..., None]}
        case 6:
            return {**tensors, name: tensor.transpose(0, -1).contiguous() if tensor.ndim else tensor + 1}
    return tensors


def _forge_header(file: Path, rng: Random) -> None:
    """Another JSON header of a safetensors file, of the length that it says."""
    content = file.read_bytes()
    length = struct.unpack_from("<Q", content)[0]
    text = as_json(forged(json.loads(content[8 : 8 + length]), rng))
    file.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
