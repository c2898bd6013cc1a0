"""Whatever happens to a file: the C library refuses it in one line, as Python does, and reads nothing beyond it."""

import ctypes
import io
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.runtime.networks import EveryOperation
from tests.storage.prun.test_damage import forge, header_of
from torch import nn

import prunnet
from prunnet.errors import CapacityError, FamilyError
from prunnet.runtime.compiling import compile_library, compiler
from prunnet.runtime.library import library
from prunnet.storage.prun import prefix_bytes, unpack

FUZZER = Path(__file__).parents[2] / "benchmarks" / "fuzzing" / "runtime.c"


def refused(data: bytes, capacity: float = 0.2) -> str | None:
    """Why, or None where the library takes it."""
    model = ctypes.c_void_p()
    loaded = library()
    code = loaded.prunnet_open(ctypes.byref(model), data, len(data)) or loaded.prunnet_plan(model, capacity, 1)
    message: str = loaded.prunnet_message(model).decode()
    loaded.prunnet_close(model)
    assert bool(code) == bool(message) and "\n" not in message
    return message if code else None


def taken_by_python(data: bytes, capacity: float = 0.2) -> bool:
    try:
        unpack(io.BytesIO(data), capacity, backbone=EveryOperation())
    except (FamilyError, CapacityError):
        return False
    return True


@pytest.fixture(scope="module")
def whole(packed) -> bytes:
    return packed.read_bytes()


def test_every_flipped_bit_of_the_prefix_is_refused(whole) -> None:
    end = prefix_bytes(io.BytesIO(whole), 0.2)
    drawn = np.random.default_rng(0).integers(0, 8 * end, 600).tolist()
    for bit in {*range(8 * 44), *drawn}:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        assert refused(bytes(damaged))


def test_a_file_cut_anywhere_holds_the_bands_that_are_whole(whole) -> None:
    end = prefix_bytes(io.BytesIO(whole), 0.2)
    for length in {*range(0, end, 97), end - 1}:
        assert refused(whole[:length])
    assert refused(whole[:end]) is None and refused(whole[: end + 9]) is None
    assert "append bytes" in (refused(whole[: end + 9], 0.4) or "")
    assert "1 bytes follow its last band" in (refused(whole + b"\0") or "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 4}, "format version 4, this runtime reads up to 3"),
        ({"version": 1}, "version"),
        ({"version": 2, "kept": None}, "a program, which version 2 does not allow"),
        ({"version": 2}, "it does not say for every band how many connections are kept"),
        ({"stepped": ["backbone.stem.weight"]}, "stepped layers, which float16 does not allow"),
        ({"values": "int8", "stepped": ["elsewhere"]}, "stepped layers are not among its layers"),
        ({"format": "other"}, "format"),
        ({"family_id": 3}, "family_id"),
        ({"family_id": "a\nb"}, "family_id"),
        ({"extra": 1}, "not known"),
        ({"grid": [0.4, 0.2, 1.0]}, "grid does not rise"),
        ({"grid": [1e-9, 0.4, 1.0]}, "starts at 1 %"),
        ({"layers": {}}, "names no layers"),
        ({"embedding_dim": 9}, "does not give 9 dimensions"),
        ({"preprocessing": {"input_size": [1]}}, "preprocessing"),
        ({"kept": [[1]]}, "for every band"),
        ({"kept": [[1] * 13] * 3}, "connections at 20 %"),
        ({"program": []}, "program"),
        ({"program": [["fold", [0], []]]}, "operation 0 of its program is not known"),
        ({"program": [["relu", [1], []]]}, "an input that is not there"),
        ({"program": [["relu", [0], [1]]]}, "another number of numbers"),
        ({"program": [["relu", [0], []]]}, "does not end with an embedding"),
        ({"program": [["conv2d", [0, -2], [1] * 9]]}, "does not take what it is given"),
        ({"program": [["pad", [i], [1024] * 4] for i in range(5)]}, "too large a result"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_although_its_checksum_fits(whole, change, message) -> None:
    assert message in (refused(forge(whole, {**header_of(whole)[0], **change})) or "")


class Positioned(nn.Module):
    """A large constant is added to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 1, 512, 512))
        self.stem = nn.Conv2d(1, 8, 3, stride=8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.stem(images + self.position).mean((2, 3))


def test_a_tensor_that_is_read_a_thousand_times_does_not_fill_the_memory(tmp_path) -> None:
    net = prunnet.convert(Positioned(), 8, preprocessing=prunnet.Preprocessing((1, 512, 512))).eval()
    file = prunnet.pack(net, tmp_path / "a.prun", grid=(1.0,), runtime=True).read_bytes()
    header, _ = header_of(file)
    (kind, (image, position), numbers), *others = header["program"]
    assert kind == "add" and image == 0 and position < 0
    for times in (2, 1100):  # 1 MB each
        added = [[kind, [place, position], numbers] for place in range(times)]
        moved = [[name, [i + times - 1 if i > 0 else i for i in read], told] for name, read, told in others]
        message = refused(forge(file, {**header, "program": added + moved}), 1.0)
        assert message is None if times == 2 else message is not None and message.endswith("it needs too much memory")


def test_c_refuses_what_python_refuses(whole) -> None:
    """One token of the header after the other becomes another; what Python takes C takes, but for its program."""
    header, _ = header_of(whole)
    others = [0, 1, -1, 2.5, 2**31, 10**12, "", "x", None, True, [], {}]
    generator = np.random.default_rng(0)
    for key in header:
        for other in others:
            forged = forge(whole, {**header, key: other})
            if refused(forged) is None:
                assert taken_by_python(forged), (key, other)
    for part in ("layers", "statistics", "rest"):
        for name in header[part]:
            shape = list(header[part][name])
            shape[generator.integers(len(shape))] += 1
            forged = forge(whole, {**header, part: {**header[part], name: shape}})
            assert refused(forged) and not taken_by_python(forged)


@pytest.mark.slow
def test_mutants_are_refused_or_run_under_sanitizers(packed, tmp_path) -> None:
    command = compiler()
    if command is None:
        pytest.skip("no C compiler")
    flags = ("-g", "-O1", "-D_GNU_SOURCE", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    compile_library(tmp_path / "fuzz", flags=flags, files=[FUZZER])
    environment = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=512"}
    ran = subprocess.run(
        [tmp_path / "fuzz", "1", "5000", packed], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and ran.stdout.startswith("refused"), ran.stderr[-3000:]
