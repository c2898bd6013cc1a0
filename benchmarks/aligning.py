"""What aligned norms are worth: the family of a run adapted alone, and aligned with its dense network.

    python benchmarks/aligning.py runs/a --batches 200 --capacities .2,.1,.05

The run is left as it is. The last lines are mAP in the dense gallery, or the metric of its data, as `name: number`.
"""

import argparse
from pathlib import Path

import torch

import prunnet
from prunnet.data import shuffled_loader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--capacities", default=".2,.1,.05")
    told = parser.parse_args()
    torch.set_num_threads(1)
    run = prunnet.Run(told.run)
    net, data = run.load_network().eval(), run.load_data()
    assert isinstance(net, prunnet.PrunableNetwork) and data.train is not None
    capacities = sorted(map(float, told.capacities.split(",")), reverse=True)
    figures = {}
    for name, batches in (("adapted", 0), ("aligned", told.batches)):
        loader = shuffled_loader(data.train, net.preprocessing, run.config.batch_size, on_error="skip")
        net.adapt(loader, capacities, adapt_batches=run.config.adapt_batches, align_batches=batches)
        matrix = prunnet.evaluate(net, data, (1.0, *capacities))
        print(f"{name}:\n{matrix}", flush=True)
        figures.update({f"{name}_{100 * capacity:g}": matrix.at(capacity, 1.0) for capacity in capacities})
    print(f"dense: {100 * matrix.at(1.0, 1.0):.1f}")
    for name, value in figures.items():
        print(f"{name}: {100 * value:.1f}")


if __name__ == "__main__":
    main()
