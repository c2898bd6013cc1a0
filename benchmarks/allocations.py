"""Ways to divide a capacity among layers, each trained by the default: mAP in the dense gallery, and multiplications.

    python benchmarks/allocations.py tuning.csv mobilenetv2_100 mobilenetv2.safetensors --out runs/allocations

`uniform`: the same share of every layer. `erk`: a share that falls with the root of a layer's size. `whole`: depthwise
layers and the first whole, the same share of the others. `protected` and `measured` are prunnet's own, for weights that
are random and for trained ones. The same command goes on where it stopped. The last lines are means over seeds in per
cent, as `name: number`.
"""

import argparse
from pathlib import Path
from statistics import mean, stdev

import torch

import prunnet
from prunnet.data import RetrievalData
from prunnet.network.allocation import Sensitive, protecting
from prunnet.runs import TrainConfig, resolve
from prunnet.training.build import build_network

EVALUATED = (1.0, 0.2, 0.1, 0.05)


def selection_of(name: str, net: prunnet.PrunableNetwork) -> prunnet.Connections:
    match name:
        case "erk":
            return prunnet.Connections(
                Sensitive({n: (sum(w.shape) / w.numel()) ** 0.5 for n, w in net.weights.items()})
            )
        case "whole":
            sensitivities = protecting(net.backbone, net.weights).sensitivities
            highest = max(sensitivities.values())  # that of the decisive layers
            return prunnet.Connections(Sensitive({n: 1e6 if s == highest else 1.0 for n, s in sensitivities.items()}))
    return prunnet.Connections(name)  # type: ignore[arg-type]


def train(name: str, seed: int, told: argparse.Namespace, data: RetrievalData) -> prunnet.Run:
    config: TrainConfig = resolve(
        {
            "data": str(told.manifest), "backbone": told.backbone, "weights": str(told.weights), "seed": seed,
            "input_size": (3, told.size, told.size), "epochs": told.epochs, "evaluate_capacities": EVALUATED,
            "allocation": "uniform",
        }
    )  # fmt: skip
    net = build_network(config)
    net.selection = selection_of(name, net)
    net.selection.attach(net)
    out = told.out / name / f"seed-{seed}"
    settings = config.model_dump(exclude={"data", "backbone", "backbone_options", "allocation"})
    return prunnet.train(net, data, out=out, resume=(out / "config.yaml").exists(), quiet=True, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("backbone")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--names", default="uniform,erk,whole,measured,protected")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=5)
    told = parser.parse_args()
    torch.set_num_threads(1)
    data = prunnet.load_data(str(told.manifest))
    runs: dict[str, list[prunnet.Run]] = {name: [] for name in told.names.split(",")}
    for seed in map(int, told.seeds.split(",")):
        for name, trained in runs.items():
            trained.append(train(name, seed, told, data))
            print(f"{name}, seed {seed}:\n{trained[-1].matrix}", flush=True)
    for name, trained in runs.items():
        net = trained[0].load_network()
        assert isinstance(net, prunnet.PrunableNetwork)
        for capacity in EVALUATED:
            found = [100 * run.matrix.at(capacity, 1.0) for run in trained]
            spread = f" ± {stdev(found):.1f}" if len(found) > 1 else ""
            macs = prunnet.cost(net, capacity).macs / 1e6
            print(f"{name} at {100 * capacity:g} %: {mean(found):.1f}{spread}, {macs:.1f} million multiplications")
    for name, trained in runs.items():
        for capacity in EVALUATED:
            print(f"{name}_{100 * capacity:g}: {100 * mean(run.matrix.at(capacity, 1.0) for run in trained):.1f}")


if __name__ == "__main__":
    main()
