"""What aligned norms are worth, for the family of a run: statistics as measured (`adapted`), members turned to the
dense network (`to_dense`), and all, the dense network too, turned to what they say together (`aligned`).

    python benchmarks/aligning.py runs/a --batches 200

The run is left as it is. The last lines are mAP in the dense gallery, or the metric of its data, as `name: number`;
`together` is the mean of everyone's embeddings, of queries and gallery, with statistics as measured.
"""

import argparse
from pathlib import Path

import torch

import prunnet
from prunnet.data import shuffled_loader
from prunnet.evaluation import compatibility_matrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--batches", type=int, default=200)
    told = parser.parse_args()
    torch.set_num_threads(1)
    run = prunnet.Run(told.run)
    net, data = run.load_network().eval(), run.load_data()
    assert isinstance(net, prunnet.PrunableNetwork) and data.train is not None
    everyone = (1.0, *net.capacities)
    figures = {}

    def adapt(name: str, capacities: tuple[float, ...], batches: int) -> None:
        loader = shuffled_loader(data.train, net.preprocessing, run.config.batch_size, on_error="skip")
        net.adapt(loader, capacities, adapt_batches=run.config.adapt_batches, align_batches=batches)
        matrix = prunnet.evaluate(net, data, everyone)
        print(f"{name}:\n{matrix}", flush=True)
        figures.update({f"{name}_{100 * capacity:g}": matrix.at(capacity, 1.0) for capacity in everyone})

    adapt("adapted", everyone, 0)
    query, gallery = (_together(net, images, everyone) for images in (data.query, data.gallery))
    figures["together"] = compatibility_matrix([query], [gallery], data).at(1.0, 1.0)
    adapt("to_dense", net.capacities, told.batches)
    adapt("aligned", everyone, told.batches)
    for name, value in figures.items():
        print(f"{name}: {100 * value:.1f}")


def _together(
    net: prunnet.PrunableNetwork, images: prunnet.data.ImageSet, capacities: tuple[float, ...]
) -> prunnet.Embeddings:
    pictures = [images.image(index) for index in range(len(images))]
    vectors = torch.stack([net.encode(pictures, capacity).vectors for capacity in capacities]).mean(dim=0)
    return prunnet.Embeddings(torch.nn.functional.normalize(vectors, dim=1), net.family_id, 1.0)


if __name__ == "__main__":
    main()
