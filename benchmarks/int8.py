"""What eight bits cost a trained MobileNetV2 family: cosine of what is unpacked with the subnetwork that was packed.

    python benchmarks/int8.py --weights mobilenetv2_100.safetensors --out runs/int8

Fine-tunes ImageNet weights to a family of every capacity from 5 % on, some minutes on glyphs of 48 pixels. Scores start
as the weights, so that subnetworks begin with the connections that matter most. A finished run in --out is used as it
is. Target: a mean cosine of at least 0.999 at every capacity of the file.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file

import prunnet
from prunnet.data import RetrievalData, eval_transform, make_loader
from prunnet.deploy.pack import DEFAULT_GRID

DATA = {"classes": 60, "images_per_class": 20, "size": 48, "rgb": True, "difficulty": 0.2}
IMAGENET = prunnet.Preprocessing((3, 48, 48), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
SETTINGS = {
    "capacities": "any", "random_capacities": 1, "score_lr": 5.0, "lr": 0.03, "epochs": 10, "batch_size": 32,
    "evaluate_capacities": (1.0, 0.2, 0.1, 0.05),
}  # fmt: skip


def fine_tune(weights: Path, data: RetrievalData, out: Path) -> None:
    backbone = prunnet.create_backbone("mobilenetv2_100")
    backbone.load_state_dict(load_file(weights), strict=False)
    net = prunnet.convert(backbone, 128, preprocessing=IMAGENET)
    with torch.no_grad():
        for name, score in net.scores.items():
            score.copy_(net.weights[name])
    run = prunnet.train(net, data, out=out, resume=(out / "config.yaml").is_file(), **SETTINGS)
    print(run.matrix)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="safetensors of timm's mobilenetv2_100")
    parser.add_argument("--out", type=Path, default=Path("runs/int8"))
    arguments = parser.parse_args()
    run: Path = arguments.out / "run"
    data = prunnet.load_data("glyphs", **DATA)
    if not (run / "evaluation" / "matrix.json").is_file():
        fine_tune(arguments.weights, data, run)
    net = prunnet.load(run / "model")
    assert data.train is not None
    train, query = (
        [batch.images for batch in make_loader(images, eval_transform(net.preprocessing), 32)]
        for images in (data.train, data.query)
    )
    prunnet.adapt_batchnorm(net, train, capacities=DEFAULT_GRID)
    path = prunnet.pack(net, arguments.out / "family.prun", values="int8", loader=train)
    images, least = torch.cat(query), 1.0
    with torch.no_grad():
        for capacity in DEFAULT_GRID:
            unpacked, packed = prunnet.unpack(path, capacity), net.subnetwork(capacity)
            cosine = (unpacked(images) * packed(images)).sum(1).mean().item()
            print(f"{capacity:6.0%} {cosine:8.5f}", flush=True)
            least = min(least, cosine)
    print(f"int8_least_mean_cosine: {least:.5f}")


main()
