"""What each form of deployment costs in retrieval: mAP of its queries in the gallery of the dense network.

    python benchmarks/deployed_recall.py --seed 0 --out runs/deployed-0

Trains two families on the built-in glyphs with the settings of `prunnet demo` (two to three minutes each on two idle
cores): one that prunes connections and one that drops whole filters. A finished run in --out, or given by --run
(`demo/run`), is used as it is.
"""

import argparse
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch

import prunnet
from prunnet.data import RetrievalData, make_loader, shuffled_loader
from prunnet.demo import demo_settings
from prunnet.deploy import prune
from prunnet.deploy.export import export
from prunnet.evaluation import relevance_of, score
from prunnet.network import PrunableNetwork
from prunnet.runs.config import resolve
from prunnet.runs.settings import read_yaml
from prunnet.structured import structured_subnetwork
from prunnet.training.start import load_data

SMALL, NARROW = 0.2, 0.36


def trained(folder: Path, settings: dict) -> tuple[PrunableNetwork, RetrievalData]:
    """The family of the run in `folder`, trained now unless it is finished, and its data."""
    if not (folder / "evaluation" / "matrix.json").is_file():
        prunnet.train(out=folder, resume=(folder / "config.yaml").is_file(), quiet=True, **settings)
    return prunnet.load(folder / "model"), load_data(resolve(read_yaml(folder / "config.yaml")))


@torch.no_grad()
def vectors(model: Callable[[torch.Tensor], torch.Tensor], images, preprocessing) -> torch.Tensor:
    return torch.cat([model(batch.images) for batch in make_loader(images, preprocessing.transform())])


def measure(net: PrunableNetwork, data: RetrievalData, models: dict[str, Callable]) -> dict[str, float]:
    relevance = relevance_of(data)
    gallery = vectors(net.subnetwork(1.0), data.gallery, net.preprocessing)
    recalls = {}
    for name, model in models.items():
        query = vectors(model, data.query, net.preprocessing)
        recalls[name] = 100 * float(np.nanmean(score(query, gallery, relevance)["mAP"]))
        print(f"{name:<44}{recalls[name]:7.2f}", flush=True)
    return recalls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/deployed"))
    parser.add_argument("--run", type=Path, help="a finished run of the demo")
    arguments = parser.parse_args()
    settings = demo_settings(quick=False, seed=arguments.seed)
    out: Path = arguments.out

    net, data = trained(arguments.run or out / "connections", settings)
    assert data.train is not None

    def images():
        return (batch.images for batch in shuffled_loader(data.train, net.preprocessing))

    small = prune(net, capacity=SMALL)
    int8 = export(small, out / "small.onnx", calibration=islice(images(), 4))
    unpacked = {
        values: prunnet.unpack(
            prunnet.pack(net, out / f"{values}.prun", values=values, grid=(SMALL, 1.0), loader=images()), SMALL
        )
        for values in ("float16", "int8")
    }
    view = prune(net, capacity=NARROW, structured=True, loader=images(), adapt_batches=30)
    print("a family that prunes connections; queries by")
    connections = measure(
        net,
        data,
        {
            "dense": net.subnetwork(1.0),
            "20 %": small,
            "20 %, int8 ONNX": int8,
            "20 %, .prun in float16": unpacked["float16"],
            "20 %, .prun in int8": unpacked["int8"],
            "36 %": prune(net, capacity=NARROW, loader=images(), adapt_batches=30),
            f"{view.capacity:.1%}, whole filters dropped afterwards": view,
        },
    )

    whole = {"structured": True, "capacities": (0.8, 0.6, NARROW, SMALL), "evaluate_capacities": (1.0, NARROW, SMALL)}
    family, data = trained(out / "filters", {**settings, **whole})
    print("a family trained to drop whole filters; queries by")
    members = {f"{c:.0%}, physically smaller": structured_subnetwork(family, c) for c in (NARROW, SMALL)}
    structured = measure(family, data, {"dense, trained so": family.subnetwork(1.0), **members})

    print(f"int8_onnx_map_lost: {connections['20 %'] - connections['20 %, int8 ONNX']:.2f}")
    print(f"int8_prun_map_lost: {connections['20 %'] - connections['20 %, .prun in int8']:.2f}")
    print(f"structured_map_lost: {structured['dense, trained so'] - structured['36%, physically smaller']:.2f}")


if __name__ == "__main__":
    main()
