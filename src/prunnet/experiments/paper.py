"""The paper's tables: mean mAP (%) on GLDv2-test, RParis and ROxford, with ResNet-18 unless said."""

from collections.abc import Mapping, Sequence

Pair = tuple[float, float]
"""Capacity of the query network, capacity of the gallery network."""
Cells = Mapping[Pair, float]

FIVE = (1.0, 0.8, 0.6, 0.4, 0.2)
ALL_PAIRS: tuple[Pair, ...] = tuple((query, gallery) for query in FIVE for gallery in FIVE)
SELF_AND_CROSS: tuple[Pair, ...] = ((1.0, 1.0), *(pair for c in FIVE[1:] for pair in ((c, c), (c, 1.0))))
SELF: tuple[Pair, ...] = tuple((capacity, capacity) for capacity in FIVE)
NEW: tuple[Pair, ...] = tuple((0.1, gallery) for gallery in (*FIVE, 0.1))


def _cells(pairs: Sequence[Pair], text: str) -> Cells:
    return dict(zip(pairs, map(float, text.split()), strict=True))


TABLE1: Mapping[str, Cells] = {
    "independent": _cells(SELF, "45.41 44.72 43.88 43.40 41.77"),
    "joint": _cells(
        ALL_PAIRS,
        "43.94 43.55 43.44 42.36 42.23  43.27 43.64 43.22 42.14 42.18  43.25 43.24 43.50 42.44 42.43 "
        "42.69 42.79 42.84 42.24 41.51  42.58 42.51 42.69 41.19 41.86",
    ),
    "o2o-sspl": _cells(
        ALL_PAIRS,
        "45.41 43.70 43.66 43.18 41.64  44.20 42.17 42.43 42.02 40.50  43.93 41.85 42.43 41.71 40.25 "
        "43.63 42.09 42.00 41.77 40.14  42.59 40.72 41.02 40.42 39.69",
    ),
    "bct-s-switchnet": _cells(
        ALL_PAIRS,
        "43.77 43.75 43.37 42.80 41.77  43.69 43.95 43.64 42.68 41.67  43.62 43.72 43.53 42.48 41.39 "
        "43.08 42.99 42.89 42.68 42.38  42.33 42.24 42.22 41.55 40.70",
    ),
    "asymmetric-s-switchnet": _cells(
        ALL_PAIRS,
        "45.09 33.11 32.33 32.36 29.54  33.72 30.39 26.91 26.75 24.16  32.99 27.74 28.75 26.80 24.40 "
        "31.96 27.13 26.87 28.50 24.95  30.85 25.16 25.42 26.56 25.93",
    ),
    "sfsc": _cells(
        ALL_PAIRS,
        "44.47 44.39 44.01 43.54 42.45  44.40 44.28 43.90 43.55 42.47  43.94 44.08 43.91 43.58 42.52 "
        "43.67 43.57 43.39 42.98 41.92  43.00 42.97 42.71 42.35 41.43",
    ),
    "bct-s-prunnet": _cells(
        ALL_PAIRS,
        "43.70 43.70 43.72 43.58 43.59  43.68 43.72 43.73 43.58 43.58  43.71 43.71 43.71 43.58 43.59 "
        "43.71 43.71 43.71 43.59 43.60  43.59 43.59 43.58 43.55 43.57",
    ),
    "asymmetric-s-prunnet": _cells(
        ALL_PAIRS,
        "45.17 45.21 45.09 44.52 42.94  45.30 45.40 45.27 44.57 42.94  44.84 44.89 44.88 44.38 42.64 "
        "44.13 44.15 44.25 43.52 42.27  42.85 43.10 43.05 42.64 41.58",
    ),
    "prunnet-paper": _cells(
        ALL_PAIRS,
        "46.29 46.29 46.30 46.27 46.08  46.29 46.29 46.28 46.26 46.07  46.26 46.26 46.25 46.26 46.08 "
        "45.98 45.99 45.95 45.97 45.82  45.61 45.63 45.63 45.74 45.63",
    ),
}

NEW_CAPACITY: Mapping[str, Cells] = {
    "joint+bct": _cells(NEW, "43.13 43.06 42.25 42.09 41.78 41.28"),
    "o2o-sspl+sspl": _cells(NEW, "41.49 40.18 40.24 39.81 38.24 38.10"),
    "bct-s-switchnet+bct": _cells(NEW, "41.71 41.64 41.46 40.79 39.78 40.01"),
    "asymmetric-s-switchnet+bct": _cells(NEW, "42.57 32.03 31.25 31.19 28.62 40.02"),
    "sfsc+bct": _cells(NEW, "41.59 41.54 41.37 40.92 39.79 39.56"),
    "bct-s-prunnet": _cells(NEW, "42.10 42.09 42.09 42.08 42.04 40.32"),
    "asymmetric-s-prunnet": _cells(NEW, "37.58 37.73 37.73 37.69 37.04 34.22"),
    "prunnet-paper": _cells(NEW, "44.67 44.63 44.66 44.72 44.55 42.55"),
}

N: Mapping[str, Cells] = {
    "n-1": _cells(SELF_AND_CROSS, "44.85 44.93 44.80 44.82 44.74 44.73 44.79 40.85 42.21"),
    "n-2": _cells(SELF_AND_CROSS, "45.63 45.56 45.56 45.55 45.57 45.39 45.53 42.40 44.59"),
    "prunnet-paper": _cells(SELF_AND_CROSS, "46.29 46.29 46.29 46.25 46.26 45.97 45.98 45.63 45.61"),
    "n-6": _cells(SELF_AND_CROSS, "46.33 46.31 46.31 46.27 46.30 46.03 46.18 45.40 45.92"),
    "n-8": _cells(SELF_AND_CROSS, "45.89 45.87 45.88 45.87 45.88 45.90 45.91 45.30 45.70"),  # printed per data set
}

ABLATION: Mapping[str, Cells] = {
    "independent": TABLE1["independent"],
    "frozen-scores-paper": _cells(SELF_AND_CROSS, "45.23 45.11 45.18 45.01 45.09 44.69 45.00 43.00 43.96"),
    "score-maps": _cells(SELF_AND_CROSS, "44.26 43.96 43.91 43.64 43.62 43.22 43.72 42.23 43.05"),
    "direct-paper": _cells(SELF_AND_CROSS, "45.70 45.67 45.68 45.59 45.68 45.79 45.65 45.30 45.44"),
    "bct-s-prunnet": _cells(SELF_AND_CROSS, "43.55 43.43 43.51 43.10 43.27 42.80 43.08 42.14 42.53"),
    "pareto": _cells(SELF_AND_CROSS, "44.84 44.80 44.84 44.80 44.83 44.70 44.82 43.84 44.49"),
    "frozen-weights": _cells(SELF_AND_CROSS, "3.08 3.19 2.49 3.21 2.41 3.14 2.38 2.99 2.24"),
    **{name: N[name] for name in ("n-1", "n-2", "prunnet-paper", "n-6")},
}

ALPHA: Mapping[str, Cells] = {name: ABLATION[name] for name in ("direct-paper", "prunnet-paper")}

STRUCTURED: Mapping[str, Cells] = {
    "sfsc": TABLE1["sfsc"],
    "structured": _cells(SELF_AND_CROSS, "44.81 44.72 45.04 44.46 45.14 44.07 44.33 41.58 43.10"),
    "prunnet-paper": TABLE1["prunnet-paper"],
}

BACKBONES: Mapping[str, Cells] = {
    "independent-resnet50": _cells(SELF, "47.06 46.84 46.47 46.34 44.74"),
    "sfsc-resnet50": _cells(SELF_AND_CROSS, "46.42 46.37 46.42 46.19 46.36 46.11 46.17 45.48 45.84"),
    "prunnet-resnet50": _cells(SELF_AND_CROSS, "47.88 47.74 47.79 47.72 47.79 47.58 47.73 47.22 47.61"),
    "independent-resnext50": _cells(SELF, "47.84 46.90 46.26 45.78 43.88"),
    "sfsc-resnext50": _cells(SELF_AND_CROSS, "47.09 46.36 46.24 45.85 45.98 45.11 45.74 43.57 45.16"),
    "prunnet-resnext50": _cells(SELF_AND_CROSS, "48.90 48.92 48.91 48.96 48.89 49.01 48.92 48.21 48.58"),
    "independent-mobilenetv2": _cells(SELF, "40.53 39.87 39.44 38.52 37.95"),
    "sfsc-mobilenetv2": _cells(SELF_AND_CROSS, "40.24 39.66 39.58 39.83 39.97 39.19 39.64 37.76 38.49"),
    "prunnet-mobilenetv2": _cells(SELF_AND_CROSS, "41.19 41.27 41.18 41.29 41.22 40.72 41.03 38.97 40.16"),
    "independent-vit-small": _cells(SELF, "51.91 46.71 42.06 35.75 28.16"),
    "sfsc-vit-small": _cells(SELF_AND_CROSS, "48.96 45.89 47.39 42.89 46.13 39.72 43.21 29.84 35.34"),
    "prunnet-vit-small": _cells(SELF_AND_CROSS, "52.39 50.10 50.31 49.80 50.34 47.39 48.05 41.21 43.40"),
}
