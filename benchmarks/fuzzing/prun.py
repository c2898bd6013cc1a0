"""`.prun` files: damaged anywhere, or forged under checksums that fit."""

import hashlib
import io
import json
import struct
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.harness import WrongError
from fuzzing.mutations import as_json, damaged, forged, pickled, recipes
from fuzzing.networks import CAPACITIES, VIT, check_same, check_sound, embedding, network
from prunnet.storage.prun import pack, prefix_bytes, unpack

_PREAMBLE = 44


class Prun:
    name = "prun"
    megabytes = 256

    def __init__(self, canary: Path) -> None:
        self._canary = canary
        self._recipes = recipes(canary)
        networks = {"resnet": network(), "vit": network("vit_tiny_patch16_224", **VIT)}
        with tempfile.TemporaryDirectory() as folder:
            self._files = [
                pack(net, Path(folder) / f"{name}-{values}.prun", grid=CAPACITIES, values=values).read_bytes()
                for name, net in networks.items()
                for values in ("float16", "int8")
            ]
        self._ends = [{c: prefix_bytes(io.BytesIO(file), c) for c in CAPACITIES} for file in self._files]
        self._expected = [{c: embedding(unpack(io.BytesIO(file), c)) for c in CAPACITIES} for file in self._files]

    def attempt(self, rng: Random) -> str:
        index, capacity = rng.randrange(len(self._files)), rng.choice(CAPACITIES)
        file = self._files[index]
        way = rng.random()
        if way < 0.97:
            mutant = damaged(file if rng.random() < 0.1 else file[: self._ends[index][capacity]], rng)
            if rng.random() < 0.01:
                mutant = pickled(self._canary) + mutant
            return check_same(unpack(io.BytesIO(mutant), capacity), self._expected[index][capacity])
        header, body = _parts(file)
        if way < 0.99:
            header = forged(header, rng, self._recipes)
            net = unpack(io.BytesIO(_joined(file, header, body)), capacity)
            _check_claims(net, header)
            return check_sound(net)
        unpack(io.BytesIO(_joined(file, *_resealed(header, body, rng))), capacity)
        return "forged values"  # any values are some network's


def _parts(file: bytes) -> tuple[Any, bytes]:
    length = struct.unpack_from("<I", file, 8)[0]
    return json.loads(file[_PREAMBLE : _PREAMBLE + length]), file[_PREAMBLE + length :]


def _joined(file: bytes, header: Any, body: bytes) -> bytes:
    text = as_json(header)
    return file[:8] + struct.pack("<I", len(text)) + hashlib.sha256(text).digest() + text + body


def _resealed(header: Any, body: bytes, rng: Random) -> tuple[Any, bytes]:
    """Damaged sections with checksums made for them."""
    payloads, start = [], 0
    for section in header["sections"]:
        payloads.append(body[start : start + section["bytes"]])
        start += section["bytes"]
    index = rng.randrange(len(payloads))
    payloads[index] = damaged(payloads[index], rng)
    if rng.random() < 0.5:  # of the length it claims, so that it is decoded
        length = header["sections"][index]["bytes"]
        payloads[index] = payloads[index][:length].ljust(length, b"\0")
    for section, payload in zip(header["sections"], payloads, strict=True):
        section |= {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
    return header, b"".join(payloads)


def _check_claims(net: Any, header: Any) -> None:
    found = (net.family_id, net.head.embedding_dim, list(net.preprocessing.input_size), list(net.preprocessing.std))
    preprocessing = header["preprocessing"]
    if found != (header["family_id"], header["embedding_dim"], preprocessing["input_size"], preprocessing["std"]):
        raise WrongError("a network that is not what the header says")
