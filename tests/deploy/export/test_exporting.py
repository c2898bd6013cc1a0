"""Exported files compute what torch computes, know their family, and never exist when they are wrong."""

import os
import pickle
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.coupled import SMALL, make_network, random_images
from torch import Tensor, nn

import prunnet
from prunnet.deploy.export import onnx_format, pt2_format
from prunnet.deploy.export.exported import ExportedNetwork, load_exported, open_files
from prunnet.deploy.export.exporting import export
from prunnet.errors import ExportError, ImageError, MissingExtraError
from prunnet.structured.removal import structured_subnetwork

FILES = ("small.onnx", "small.pt2", "small.xml")


def difference(exported: ExportedNetwork, subnetwork: prunnet.Subnetwork, images: Tensor) -> float:
    with torch.no_grad():
        return float((exported(images) - subnetwork(images)).abs().max())


def opened(path: Path) -> ExportedNetwork:
    """Read back, whatever the format; of a .pt2 the one that was just made."""
    if path.suffix == ".pt2":
        return open_files(pt2_format, {".pt2": path}, path)
    return load_exported(path)


@pytest.fixture(scope="module")
def subnetwork() -> prunnet.Subnetwork:
    net = make_network("branches")
    prunnet.adapt_batchnorm(net, [random_images(16, seed=1)], capacities=(0.5,))
    return net.subnetwork(0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, subnetwork: prunnet.Subnetwork) -> Path:
    """Every format of `subnetwork`, made once."""
    path = tmp_path_factory.mktemp("exports")
    for file in FILES:
        export(subnetwork, path / file)
    return path


@pytest.mark.parametrize("file", FILES)
def test_equals_torch_for_every_batch_size(file: str, folder: Path, subnetwork: prunnet.Subnetwork) -> None:
    for size in (1, 4, 7):
        assert difference(opened(folder / file), subnetwork, random_images(size, seed=size)) <= 1e-4


@pytest.mark.parametrize("file", ["small.onnx", "small.xml"])
def test_a_structured_resnet_equals_torch(file: str, tmp_path: Path) -> None:
    structured = structured_subnetwork(make_network("resnet18"), 0.4)
    prunnet.adapt_batchnorm(structured, [random_images(16, seed=1)])
    assert difference(export(structured, tmp_path / file), structured, random_images(5)) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "resnext50_32x4d", "mobilenetv2_100", "vit_small_patch16_224"]
)
def test_the_papers_backbones_equal_torch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = prunnet.convert(prunnet.create_backbone(name)).eval()
    images = torch.randn(3, *net.preprocessing.input_size)
    prunnet.adapt_batchnorm(net, [images], capacities=(1.0, 0.5, 0.2))
    for capacity in (1.0, 0.5, 0.2):
        subnetwork = net.subnetwork(capacity)
        for file in ("model.onnx", "model.xml"):
            exported = export(subnetwork, tmp_path / file)
            assert difference(exported, subnetwork, images) <= 1e-4
            assert difference(exported, subnetwork, images[:1]) <= 1e-4


@pytest.mark.parametrize("file", FILES)
def test_the_file_knows_its_family(file: str, folder: Path, subnetwork: prunnet.Subnetwork) -> None:
    exported = opened(folder / file)
    assert (exported.family_id, exported.capacity) == (subnetwork.family_id, 0.5)
    assert exported.preprocessing == subnetwork.preprocessing
    pictures = np.random.default_rng(0).integers(0, 256, (3, 40, 50, 3), dtype=np.uint8)
    found, expected = exported.encode(pictures, batch_size=2), subnetwork.encode(pictures)
    torch.testing.assert_close(found.vectors, expected.vectors, atol=1e-4, rtol=0)
    assert found.similarity(expected).diagonal().min() > 0.999
    with pytest.raises(ImageError, match="must be a batch"):
        exported(torch.zeros(2, 1, 32, 32))


@pytest.mark.parametrize("file", ["small.onnx", "small.xml"])
def test_another_process_opens_the_file_it_is_sent(file: str, folder: Path, subnetwork: prunnet.Subnetwork) -> None:
    sent = pickle.loads(pickle.dumps(load_exported(folder / file)))
    assert difference(sent, subnetwork, random_images(2)) <= 1e-4


def test_onnx_is_one_file_with_plain_metadata(folder: Path, subnetwork: prunnet.Subnetwork) -> None:
    import onnx

    sums = (f"{file}.sha256" for file in FILES)
    assert sorted(file.name for file in folder.iterdir()) == sorted((*FILES, "small.bin", *sums))
    model = onnx.load(folder / "small.onnx", load_external_data=False)
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert properties["family_id"] == subnetwork.family_id
    assert '"input_size": [3, 32, 32]' in properties["preprocessing"]
    shape = model.graph.input[0].type.tensor_type.shape.dim
    assert [dimension.dim_param or dimension.dim_value for dimension in shape] == ["batch", 3, 32, 32]


class OtherWhenTraced(nn.Module):
    """Computes something else when it is exported, as code that depends on its caller does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 8)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.linear(images.mean((2, 3)))
        return features.relu() if torch.compiler.is_compiling() else features


@pytest.mark.parametrize("file", FILES)
def test_a_wrong_export_leaves_nothing(file: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    subnetwork = prunnet.convert(OtherWhenTraced(), 8, preprocessing=SMALL).eval().subnetwork(1.0)
    (tmp_path / file).write_text("what was there before")
    with pytest.raises(ExportError, match=r"differs from torch by .* nothing was written"):
        export(subnetwork, tmp_path / file)
    assert [entry.name for entry in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_text() == "what was there before"


def test_unadapted_statistics_are_noticed(tmp_path: Path) -> None:
    with pytest.warns(prunnet.NotAdaptedWarning):
        export(make_network("branches").subnetwork(0.3), tmp_path / "small.pt2")


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_or_absent_file_is_refused(file: str, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="does not exist"):
        load_exported(tmp_path / file)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    whole = (tmp_path / file).read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"something else"):
        (tmp_path / file).write_bytes(damaged)
        with pytest.raises(ExportError):
            load_exported(tmp_path / file)


def test_truncated_openvino_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    weights = tmp_path / "small.bin"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ExportError, match=r"does not match small\.xml\.sha256"):
        load_exported(tmp_path / "small.xml")


@pytest.mark.parametrize("file", ["small.onnx", "small.xml", "small.bin"])
def test_one_flipped_bit_is_refused(file: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    content = bytearray((tmp_path / file).read_bytes())
    for place in random.Random(0).sample(range(len(content)), 20):
        content[place] ^= 4
        (tmp_path / file).write_bytes(content)
        with pytest.raises(ExportError, match="is damaged"):
            load_exported(tmp_path / file.replace(".bin", ".xml"))
        content[place] ^= 4


def test_a_crafted_archive_runs_nothing(folder: Path, tmp_path: Path) -> None:
    """torch.export.load would unpickle the constants of this archive, and with them create the file."""

    class Crafted:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "executed"),)

    crafted = tmp_path / "small.pt2"
    with zipfile.ZipFile(folder / "small.pt2") as archive, zipfile.ZipFile(crafted, "w") as forged:
        for name in archive.namelist():
            forged.writestr(name, pickle.dumps(Crafted()) if name.endswith(".pt") else archive.read(name))
    with pytest.raises(ExportError, match="may run code"):
        load_exported(crafted)
    assert not (tmp_path / "executed").exists()


def test_a_foreign_model_is_refused(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1])
    out = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["images"], ["embedding"])], "other", [value], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(ExportError, match=r"other\.onnx\.sha256 does not exist"):
        load_exported(tmp_path / "other.onnx")
    with pytest.raises(ExportError, match="was not written by prunnet"):
        open_files(onnx_format, {".onnx": tmp_path / "other.onnx"}, tmp_path / "other.onnx")


def test_formats_are_told_by_suffix_or_name(tmp_path: Path, subnetwork: prunnet.Subnetwork) -> None:
    with pytest.raises(ExportError, match="names no format"):
        export(subnetwork, tmp_path / "small.h5")
    with pytest.raises(ExportError, match="unknown format"):
        export(subnetwork, tmp_path / "small.onnx", "coreml")
    with pytest.raises(ExportError, match=r"does not end in \.pt2"):
        export(subnetwork, tmp_path / "small.onnx", "pt2")
    with pytest.raises(ExportError, match="int8 is available for onnx"):
        export(subnetwork, tmp_path / "small.pt2", calibration=[random_images(2)])
    assert not list(tmp_path.iterdir())


def test_int8_is_smaller_and_close(tmp_path: Path) -> None:
    net = make_network("resnet18")
    images = random_images(64, seed=2)
    prunnet.adapt_batchnorm(net, [images], capacities=(0.5,))
    subnetwork = net.subnetwork(0.5)
    int8 = export(subnetwork, tmp_path / "int8.onnx", calibration=images.split(32))
    assert (int8.metadata.precision, int8.family_id, int8.capacity) == ("int8", net.family_id, 0.5)
    assert int8.bytes < 0.6 * 4 * sum(parameter.numel() for parameter in subnetwork.parameters())
    with torch.no_grad():
        assert 0.95 < float((int8(images) * subnetwork(images)).sum(1).mean()) < 0.99999
    assert sorted(file.name for file in tmp_path.iterdir()) == ["int8.onnx", "int8.onnx.sha256"]


def test_int8_needs_images(tmp_path: Path, subnetwork: prunnet.Subnetwork) -> None:
    with pytest.raises(ExportError, match="needs calibration images"):
        export(subnetwork, tmp_path / "int8.onnx", calibration=[])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("package", "file", "extra"),
    [("onnxscript", "a.onnx", "onnx"), ("onnxruntime", "a.onnx", "onnx"), ("openvino", "a.xml", "openvino")],
)
def test_what_is_not_installed_is_named(
    package: str,
    file: str,
    extra: str,
    tmp_path: Path,
    subnetwork: prunnet.Subnetwork,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"prunnet\[{extra}\]"):
        export(subnetwork, tmp_path / file)
    assert not list(tmp_path.iterdir())


NO_ROOM = """
import resource, signal, sys
from prunnet.cli.command import main

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.argv = ["prunnet", "export", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("file", FILES)
def test_a_disk_without_room_is_one_line_and_leaves_nothing(file: str, tmp_path: Path) -> None:
    make_network("resnet18").subnetwork(1.0).save(tmp_path / "small")
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", NO_ROOM, str(tmp_path / "small"), str(tmp_path / "out" / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "free some space" in done.stderr and not list((tmp_path / "out").iterdir())
