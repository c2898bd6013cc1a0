"""What eight bits cost a trained MobileNetV2 family: cosine of what is unpacked with the subnetwork that was packed.

    python benchmarks/int8.py --weights mobilenetv2_100.safetensors --out runs/int8

Trains a family for every capacity from 5 % on, a few minutes on glyphs of 32 pixels, from ImageNet weights if given. A
finished run in --out is used as it is. Target: a mean cosine of at least 0.999 at every capacity of the file.
"""

import argparse
from pathlib import Path

import torch

import prunnet
from prunnet.data import eval_transform, make_loader
from prunnet.deploy.pack import DEFAULT_GRID
from prunnet.report.facts import shuffled
from prunnet.training.config import read_yaml, resolve
from prunnet.training.run import load_data

SETTINGS = {
    "data": "glyphs", "data_options": {"classes": 120, "images_per_class": 20, "size": 32, "rgb": True},
    "backbone": "mobilenetv2_100", "input_size": (3, 32, 32), "embedding_dim": 128,
    "capacities": "any", "score_lr": 20.0, "lr": 0.05, "epochs": 6, "batch_size": 32, "workers": 0,
    "evaluate_capacities": (1.0, 0.2, 0.1, 0.05),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, help="safetensors of timm's mobilenetv2_100")
    parser.add_argument("--out", type=Path, default=Path("runs/int8"))
    arguments = parser.parse_args()
    run: Path = arguments.out / "run"
    if not (run / "evaluation" / "matrix.json").is_file():
        weights = str(arguments.weights) if arguments.weights else None
        prunnet.train(out=run, resume=(run / "config.yaml").is_file(), **SETTINGS, weights=weights)
    net, data = prunnet.load(run / "model"), load_data(resolve(read_yaml(run / "config.yaml")))
    assert data.train is not None
    train = (batch.images for batch in shuffled(data.train, net.preprocessing))
    path = prunnet.pack(net, arguments.out / "family.prun", values="int8", loader=train)
    query = [batch.images for batch in make_loader(data.query, eval_transform(net.preprocessing), 32)]
    images = torch.cat(query)[:256]
    least = 1.0
    with torch.no_grad():
        for capacity in DEFAULT_GRID:
            unpacked, packed = prunnet.unpack(path, capacity), net.subnetwork(capacity)
            cosine = (unpacked(images) * packed(images)).sum(1).mean().item()
            print(f"{capacity:6.0%} {cosine:8.5f}", flush=True)
            least = min(least, cosine)
    print(f"int8_least_mean_cosine: {least:.5f}")


main()
