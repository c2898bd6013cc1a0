"""What eight bits cost a trained MobileNetV2 family: cosine of what is unpacked with the subnetwork that was packed.

    python benchmarks/int8.py --weights mobilenetv2_100.safetensors --out runs/int8

Fine-tunes ImageNet weights to a family of every capacity from 5 % on, some minutes on glyphs of 48 pixels. Scores start
as the weights, so that subnetworks begin with the connections that matter most. A finished run in --out is used as it
is. Target: a mean cosine of at least 0.999 at every capacity of the file. Beside it: half precision, packed without
images to correct batch norm on.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file

import prunnet
from prunnet.data import RetrievalData, shuffled_loader
from prunnet.storage.prun import DEFAULT_GRID

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
        [batch.images for batch in shuffled_loader(images, net.preprocessing, 32)]
        for images in (data.train, data.query)
    )
    prunnet.adapt_batchnorm(net, train, capacities=DEFAULT_GRID)
    int8 = prunnet.pack(net, arguments.out / "int8.prun", values="int8", loader=train)
    half = prunnet.pack(net, arguments.out / "half.prun", values="float16")
    images, least = torch.cat(query), 1.0
    print("capacity  int8, corrected  float16, not corrected")
    for capacity in DEFAULT_GRID:
        with torch.no_grad():
            exact = net.subnetwork(capacity)(images)
            cosines = [(prunnet.unpack(path, capacity)(images) * exact).sum(1).mean().item() for path in (int8, half)]
        print(f"{capacity:8.0%} {cosines[0]:16.5f} {cosines[1]:23.5f}", flush=True)
        least = min(least, cosines[0])
    print(f"int8_least_mean_cosine: {least:.5f}")


main()
