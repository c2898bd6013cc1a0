"""Makes a golden folder with the present version: python tests/golden/make.py tests/golden/version-N

Kept files are never made again: they show what that version wrote.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

import prunnet
from prunnet._checked import save_tensors

SETTING: dict[str, Any] = {
    "backbone": "resnet18",
    "backbone_options": {
        "in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1], "stem_type": "deep", "stem_width": 4,
    },
    "input_size": (1, 16, 16), "embedding_dim": 8, "data": "glyphs",
    "data_options": {"classes": 12, "images_per_class": 8, "size": 16}, "batch_size": 16, "epochs": 1, "lr": 0.1,
}  # fmt: skip
RUNS: dict[str, dict[str, Any]] = {
    "run": {"capacities": (0.5, 0.2)},
    "joint": {"method": "joint", "capacities": (0.5, 0.2)},
    "bct": {"method": "bct", "old": "joint", "capacities": (0.1,)},
    "independent": {"method": "independent", "capacities": (0.2,)},
    "filters": {"selection": "filters", "capacities": (0.5,)},
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chdir(folder)  # paths in what is stored are relative to it
    for name, settings in RUNS.items():
        prunnet.train(out=name, quiet=True, **{**SETTING, **settings})
        shutil.rmtree(f"{name}/plots")
        if name != "run":
            shutil.rmtree(f"{name}/checkpoint")
    for picture in Path().rglob("*.png"):
        picture.unlink()
    for file in Path().glob("*/environment.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "command": ["prunnet", "train"]}, indent=2) + "\n")
    net, filters = prunnet.load("run"), prunnet.load("filters")
    net.subnetwork(0.2).save("subnetwork")
    prunnet.prune(filters, capacity=0.5).save("narrow")
    for values in ("float16", "int8"):
        prunnet.pack(net, f"family-{values}.prun", values=values, grid=(0.2, 0.5, 1.0))
    prunnet.pack(net, "family-runtime.prun", grid=(0.2, 0.5, 1.0), runtime=True)
    images = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(7))
    expected = {"images": images}
    stored = {name: prunnet.load(name).available((1.0, 0.5, 0.2, 0.1)) for name in RUNS if name != "filters"}
    stored |= {"filters": (1.0, 0.5), "subnetwork": (0.2,), "narrow": (0.5,)}
    with torch.no_grad():
        for name, capacities in stored.items():
            for capacity in set(capacities) & {1.0, *prunnet.load(name).capacities}:
                expected[f"{name}.{capacity:g}"] = prunnet.load(name, capacity=capacity)(images)
        for values in ("float16", "int8"):
            for capacity in (0.2, 0.5, 1.0):
                expected[f"{values}.{capacity:g}"] = prunnet.unpack(f"family-{values}.prun", capacity)(images)
    save_tensors(expected, Path("expected.safetensors"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
