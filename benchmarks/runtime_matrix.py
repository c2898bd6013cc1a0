"""Whether a trained family finds with the runtime what it finds with torch: its evaluation matrix through both.

    python benchmarks/runtime_matrix.py runs/omniglot

RUN is a folder of `prunnet train`; its data must be where its config says. The family is packed with batch norms
adapted at each capacity; both sides read that file. Prints the largest difference of any cell (queries by one member,
gallery by another) and the least cosine of any embedding.
"""

import argparse
import tempfile
from pathlib import Path

import prunnet
from prunnet.data import training_images
from prunnet.evaluation import compatibility_matrix, embed_images
from prunnet.runs import Run

CAPACITIES = (0.05, 0.1, 0.2, 0.4, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = Run(parser.parse_args().run)
    data, family = run.load_data(), prunnet.load(run.folder)
    with tempfile.TemporaryDirectory() as folder:
        loader = training_images(data, family.preprocessing)
        file = prunnet.pack(family, Path(folder) / "a.prun", grid=CAPACITIES, loader=loader, runtime=True)
        torch_side = [prunnet.unpack(file, capacity) for capacity in CAPACITIES]
        own_side = [prunnet.Runtime(file, capacity) for capacity in CAPACITIES]
        found = []
        for encoders in (torch_side, own_side):
            found.append([[embed_images(e, images) for e in encoders] for images in (data.query, data.gallery)])
    matrices = [compatibility_matrix(query, gallery, data) for query, gallery in found]
    cosines = [
        float((a.vectors * b.vectors).sum(1).min())
        for side in (0, 1)
        for a, b in zip(found[0][side], found[1][side], strict=True)
    ]
    print(matrices[1])
    print(f"largest_difference: {abs(matrices[0].values - matrices[1].values).max():.2e}")
    print(f"least_cosine: {min(cosines):.8f}")


if __name__ == "__main__":
    main()
