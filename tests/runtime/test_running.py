import io
import sys
import threading
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.networks import HandWritten
from tests.runtime.networks import CAPACITIES, GRID, PROMISED, SIDE, EveryOperation, whole_backbone
from tests.storage.prun.test_sources import CountingFile, RangeHandler, SlowFile

import prunnet
from prunnet._checked import load_tensors
from prunnet.errors import CapacityError, ExportError, FamilyError, ImageError
from prunnet.evaluation.embedding import Encoder
from prunnet.storage.prun import prefix_bytes

GOLDEN = Path(__file__).parents[1] / "golden"
LEAST_COSINE = 0.99999

BACKBONES: dict[str, dict[str, Any]] = {
    "resnet18": {"channels": (8, 8, 16, 16), "layers": (1, 1, 1, 1)},
    "resnet50": {"channels": (8, 8, 16, 16), "layers": (1, 1, 1, 1)},
    "resnext50_32x4d": {"channels": (16, 16, 32, 32), "layers": (1, 1, 1, 1), "cardinality": 4, "base_width": 32},
    "vit_small_patch16_224": {"img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 3},
    "lcnet_035": {},
}
"""Small forms of what is promised, and of squeeze and excitation."""


def check_equal(net: prunnet.PrunableNetwork, grid: tuple[float, ...], path, side: int) -> None:
    """The runtime embeds as torch does with what it unpacks from the same file: images and pictures, as it grows."""
    file = prunnet.pack(net, path, grid=grid, runtime=True)
    runtime = prunnet.Runtime(file, grid[0])
    images = torch.randn(2, *net.preprocessing.input_size)
    picture = picture_of(side + 9, side + 30)
    for capacity in grid:
        expected = prunnet.unpack(file, capacity, backbone=net.backbone)
        runtime.upgrade(capacity)
        cosines = [*(runtime(images) * expected(images)).sum(1).tolist()]
        cosines.append(runtime.encode(picture).similarity(expected.encode(picture)).item())
        assert min(cosines) >= LEAST_COSINE, (capacity, cosines)


def picture_of(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth enough to have edges, rough enough to tell filters apart."""
    noise = np.random.default_rng(seed).integers(0, 256, (height // 3 + 2, width // 3 + 2, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("values", ["float16", "int8"])
def test_every_operation_gives_what_torch_gives(net, tmp_path, values) -> None:
    file = prunnet.pack(net, tmp_path / "every.prun", grid=GRID, values=values, runtime=True)
    images = torch.randn(4, 3, SIDE, SIDE)
    for capacity in GRID:
        expected = prunnet.unpack(file, capacity, backbone=EveryOperation())
        found = prunnet.Runtime(file, capacity)(images)
        assert (found * expected(images)).sum(1).min() >= LEAST_COSINE
        torch.testing.assert_close(found, expected(images), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", BACKBONES)
def test_backbones_give_what_torch_gives(name, tmp_path) -> None:
    torch.manual_seed(0)
    backbone = prunnet.create_backbone(name, **BACKBONES[name])
    own = prunnet.Preprocessing.of(backbone)
    preprocessing = prunnet.Preprocessing((3, 48, 48), own.mean, own.std, own.interpolation, own.crop_pct)
    net = prunnet.convert(backbone, 16, preprocessing=preprocessing)
    torch.nn.init.normal_(net.head.norm.bias)
    grid = (0.1, 0.4, 1.0)
    prunnet.adapt_batchnorm(net, [torch.randn(8, 3, 48, 48)], capacities=grid)
    check_equal(net, grid, tmp_path / "a.prun", 48)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    (
        *PROMISED,
        *("mobilenetv3_small_050", "efficientnet_b0", "mobilenetv3_large_100", "convnext_atto", "regnety_002"),
    ),
)
def test_whole_backbones_give_what_torch_gives(name, tmp_path) -> None:
    net = whole_backbone(name)
    check_equal(net, CAPACITIES, tmp_path / "a.prun", net.preprocessing.input_size[1])


def test_a_weight_that_is_used_twice(tmp_path) -> None:
    torch.manual_seed(0)
    net = prunnet.convert(HandWritten(), 8, preprocessing=prunnet.Preprocessing((3, SIDE, SIDE)))
    prunnet.adapt_batchnorm(net, [torch.randn(8, 3, SIDE, SIDE)], capacities=GRID)
    check_equal(net, GRID, tmp_path / "a.prun", SIDE)


def test_uneven_shares_of_layers_are_read(tmp_path) -> None:
    torch.manual_seed(0)
    net = prunnet.convert(
        EveryOperation(),
        8,
        preprocessing=prunnet.Preprocessing((3, SIDE, SIDE)),
        selection=prunnet.Connections("protected"),
    )
    prunnet.adapt_batchnorm(net, [torch.randn(8, 3, SIDE, SIDE)], capacities=GRID)
    check_equal(net, GRID, tmp_path / "a.prun", SIDE)


def test_it_is_an_encoder_of_its_family(net, packed) -> None:
    runtime = prunnet.Runtime(packed, 0.4)
    encoder: Encoder = runtime
    picture = picture_of(50, 40)
    found = runtime.encode([picture, np.asarray(picture), torch.from_numpy(np.array(picture)).permute(2, 0, 1)])
    assert (found.family_id, found.capacity, len(found)) == (net.family_id, 0.4, 3)
    assert torch.equal(found.vectors[0], found.vectors[1]) and torch.equal(found.vectors[0], found.vectors[2])
    expected = net.encode(picture, 0.4)
    assert found.similarity(expected).min() > 0.999
    preprocessed = runtime.encode(runtime.preprocessing.batch([picture]))
    assert preprocessed.similarity(found).min() >= LEAST_COSINE
    assert encoder.preprocessing == net.preprocessing and runtime.embedding_dim == 8 and runtime.grid == GRID
    assert repr(runtime).endswith(f"capacity=0.4, family_id='{net.family_id}')")


def test_only_the_bytes_in_between_are_read(packed) -> None:
    file = CountingFile(packed.read_bytes())
    runtime = prunnet.Runtime(file, 0.2)
    assert file.count == file.furthest == prefix_bytes(packed, 0.2) == runtime.bytes
    before, vectors = file.count, runtime.encode(picture_of(40, 40)).vectors
    runtime.upgrade(0.4)
    assert file.count - before == prefix_bytes(packed, 0.4) - prefix_bytes(packed, 0.2)
    assert runtime.capacity == 0.4
    runtime.upgrade(0.2)
    assert torch.equal(runtime.encode(picture_of(40, 40)).vectors, vectors)
    assert file.furthest == prefix_bytes(packed, 0.4)


def test_an_address_is_read_by_ranges(packed) -> None:
    served: list[tuple[int, int]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeHandler, packed.read_bytes(), served))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        runtime = prunnet.Runtime(f"http://127.0.0.1:{server.server_port}/every.prun", 0.2)
        runtime.upgrade(0.4)
    finally:
        server.shutdown()
        server.server_close()
    assert sum(end - start for start, end in served) == prefix_bytes(packed, 0.4)
    assert [start for start, _ in served][1:] == [end for _, end in served][:-1]
    expected = prunnet.Runtime(packed, 0.4).encode(picture_of(40, 40))
    assert torch.equal(runtime.encode(picture_of(40, 40)).vectors, expected.vectors)


def test_a_prefix_runs_and_says_what_is_missing(packed) -> None:
    prefix = packed.read_bytes()[: prefix_bytes(packed, 0.2)]
    runtime = prunnet.Runtime(io.BytesIO(prefix))
    assert runtime.capacity == 0.2
    with pytest.raises(CapacityError, match="holds capacities up to 20 %; for 100 % append bytes"):
        prunnet.Runtime(io.BytesIO(prefix), 1.0)
    with pytest.raises(CapacityError, match="holds capacities up to 20 %"):
        runtime.upgrade(0.4)
    with pytest.raises(CapacityError, match="no band that ends at 30 %"):
        runtime.upgrade(0.3)
    assert runtime.capacity == 0.2 and len(runtime.encode(picture_of(40, 40))) == 1


def test_a_band_that_arrives_damaged_can_be_fetched_again(packed) -> None:
    whole = packed.read_bytes()
    start = prefix_bytes(packed, 0.2)
    file = io.BytesIO(whole)
    runtime = prunnet.Runtime(file, 0.2)
    vectors = runtime.encode(picture_of(40, 40)).vectors
    file.seek(start + 5)
    file.write(bytes([whole[start + 5] ^ 1]))
    with pytest.raises(FamilyError, match="damaged: section 2 does not match its checksum; fetch bytes"):
        runtime.upgrade(0.4)
    assert runtime.capacity == 0.2 and runtime.bytes == start
    assert torch.equal(runtime.encode(picture_of(40, 40)).vectors, vectors)
    file.seek(0)
    file.write(whole)
    assert runtime.upgrade(0.4).capacity == 0.4


def test_what_cannot_be_embedded_is_refused(packed) -> None:
    runtime = prunnet.Runtime(packed, 0.2)
    with pytest.raises(ImageError, match="no images"):
        runtime.encode([])
    with pytest.raises(ImageError, match=r"runs images of \(3, 32, 32\); found shape \(3, 16, 16\)"):
        runtime.encode(torch.zeros(1, 3, 16, 16))
    with pytest.raises(ImageError, match="sides from 1 to"):
        runtime.encode(Image.new("RGB", (70_000, 1)))


def test_a_file_without_a_program_says_how_to_get_one(net, tmp_path) -> None:
    file = prunnet.pack(net, tmp_path / "a.prun", grid=GRID)
    with pytest.raises(FamilyError, match=r"holds no program to run; pack it with runtime=True"):
        prunnet.Runtime(file)


@pytest.mark.parametrize("values", ["float16", "int8"])
def test_a_file_of_version_2_is_read_and_holds_no_program(values) -> None:
    file = GOLDEN / "version-2" / f"family-{values}.prun"
    assert prunnet.unpack(file, 0.2).capacity == 0.2
    with pytest.raises(FamilyError, match=r"holds no program to run; pack it with runtime=True"):
        prunnet.Runtime(file)


def test_programs_of_every_version_are_run_as_they_were() -> None:
    files = sorted(GOLDEN.glob("version-*/family-runtime.prun"))
    assert files
    for file in files:
        expected = load_tensors(file.with_name("expected.safetensors"), sealed=False)[0]
        for capacity in (0.2, 0.5, 1.0):
            found = prunnet.Runtime(file, capacity)(expected["images"])
            torch.testing.assert_close(found, expected[f"float16.{capacity:g}"], rtol=0, atol=1e-5)


class Unusual(EveryOperation):
    def forward(self, images):
        return super().forward(images).cumsum(1)


def test_an_operation_that_is_missing_is_named(tmp_path) -> None:
    net = prunnet.convert(Unusual(), 8, preprocessing=prunnet.Preprocessing((3, SIDE, SIDE)))
    prunnet.adapt_batchnorm(net, [torch.randn(4, 3, SIDE, SIDE)], capacities=(0.2,))
    with pytest.raises(ExportError, match=r"no operation cumsum.* export to ONNX"):
        prunnet.pack(net, tmp_path / "a.prun", grid=(0.2,), runtime=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_that_divide_the_work_give_the_same(packed, threads) -> None:
    images = torch.randn(4, 3, SIDE, SIDE)
    for capacity in GRID:
        expected = prunnet.Runtime(packed, capacity)(images)
        torch.testing.assert_close(prunnet.Runtime(packed, capacity, threads=threads)(images), expected)


def test_threads_may_share_one(packed) -> None:
    runtime = prunnet.Runtime(packed, 0.2)
    pictures = [picture_of(40, 40, seed) for seed in range(4)]
    expected = runtime.encode(pictures).vectors
    found: dict[int, torch.Tensor] = {}

    def embed(number: int) -> None:
        found[number] = runtime.encode(pictures).vectors

    threads = [threading.Thread(target=embed, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(vectors, expected) for vectors in found.values()) and len(found) == 4


def test_threads_may_upgrade_one_at_once(packed, monkeypatch) -> None:
    whole, failed = packed.read_bytes(), []
    interval = sys.getswitchinterval()
    monkeypatch.setattr(threading, "excepthook", lambda told: failed.append(told.exc_value))
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            runtime = prunnet.Runtime(SlowFile(whole), 0.2)
            threads = [threading.Thread(target=runtime.upgrade, args=(c,)) for c in (0.4, 1.0, 0.4, 1.0)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failed and runtime.bytes == len(whole)
    finally:
        sys.setswitchinterval(interval)
