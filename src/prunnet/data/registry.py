"""Every data set by name: what it needs, where it comes from, how it is split; and the one way to load any of them."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunnet.data.benchmarks.cifar10 import load_cifar10
from prunnet.data.benchmarks.fine_grained import load_cars196, load_cub200, load_inshop, load_sop
from prunnet.data.benchmarks.landmarks import load_gldv2, load_roxford5k, load_rparis6k
from prunnet.data.benchmarks.omniglot import load_omniglot
from prunnet.data.benchmarks.reid import load_market1501, load_msmt17, load_veri776
from prunnet.data.folder import load_folder
from prunnet.data.glyphs import load_glyphs
from prunnet.data.manifest import load_manifest
from prunnet.data.retrieval import RetrievalData
from prunnet.errors import DataError


@dataclass(frozen=True)
class Entry:
    """A data set known by name."""

    name: str
    load: Callable[..., RetrievalData]
    files: str
    source: str
    split: str
    metric: str


DATASETS = {
    entry.name: entry
    for entry in (
        Entry(
            "glyphs",
            load_glyphs,
            "nothing: drawn from the fonts matplotlib ships",
            "built in",
            "disjoint characters; query and gallery in different faces",
            "mAP",
        ),
        Entry(
            "omniglot",
            load_omniglot,
            "omniglot_*.npz, or images_background/ images_evaluation/",
            "https://github.com/brendenlake/omniglot",
            "background trains; evaluation: drawers 1–5 ask, 6–20 answer",
            "mAP",
        ),
        Entry(
            "gldv2",
            load_gldv2,
            "train/ index/ test/ with a/b/c/abc….jpg, train_clean.csv or train.csv, index_image_to_landmark.csv, "
            "retrieval_solution_v2.1.csv",
            "https://github.com/cvdfoundation/google-landmark",
            "train_clean trains; test asks index; ignored queries left out",
            "mAP@100",
        ),
        Entry(
            "roxford5k",
            load_roxford5k,
            "jpg/, gnd_roxford5k.json or .pkl",
            "https://github.com/filipradenovic/revisitop",
            "70 queries cut to their box; easy, medium, hard; no training images",
            "revisited",
        ),
        Entry(
            "rparis6k",
            load_rparis6k,
            "jpg/, gnd_rparis6k.json or .pkl",
            "https://github.com/filipradenovic/revisitop",
            "70 queries cut to their box; easy, medium, hard; no training images",
            "revisited",
        ),
        Entry(
            "inshop",
            load_inshop,
            "Eval/list_eval_partition.txt, Img/img/ or img/ (crop: Anno/list_bbox_inshop.txt)",
            "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
            "train, query and gallery as listed",
            "Recall@1",
        ),
        Entry(
            "veri776",
            load_veri776,
            "image_train/ image_query/ image_test/, name_*.txt if present",
            "https://vehiclereid.github.io/VeRi/",
            "576 vehicles train, 200 are retrieved; same camera ignored",
            "mAP",
        ),
        Entry(
            "market1501",
            load_market1501,
            "bounding_box_train/ query/ bounding_box_test/",
            "https://zheng-lab.cecs.anu.edu.au/Project/project_reid.html",
            "751 people train, 750 are retrieved; same camera and junk (−1) ignored",
            "mAP",
        ),
        Entry(
            "msmt17",
            load_msmt17,
            "train/ test/ or mask_train_v2/ mask_test_v2/, list_train.txt list_val.txt list_query.txt list_gallery.txt",
            "https://www.pkuvmc.com/publications/msmt17.html",
            "list_train and list_val train (1,041 people); same camera ignored",
            "mAP",
        ),
        Entry(
            "cub200",
            load_cub200,
            "images/, images.txt, classes.txt, image_class_labels.txt, train_test_split.txt (crop: bounding_boxes.txt)",
            "https://www.vision.caltech.edu/datasets/cub_200_2011/",
            "classes 1–100 train, 101–200 are retrieved; split=standard: train_test_split.txt",
            "Recall@1",
        ),
        Entry(
            "cars196",
            load_cars196,
            "car_ims/, cars_annos.mat",
            "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
            "classes 1–98 train, 99–196 are retrieved",
            "Recall@1",
        ),
        Entry(
            "sop",
            load_sop,
            "Ebay_train.txt, Ebay_test.txt and the *_final/ folders",
            "https://cvgl.stanford.edu/projects/lifted_struct/",
            "11,318 products train, 11,316 are retrieved",
            "Recall@1",
        ),
        Entry(
            "cifar10",
            load_cifar10,
            "cifar-10-batches-bin/ or cifar-10-batches-py/",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            "50,000 train; every test image asks all others",
            "mAP",
        ),
    )
}


def load_data(
    spec: str | Path | RetrievalData, root: Path | str | None = None, *, cache: bool = False, **options: Any
) -> RetrievalData:
    """Load data by name (with the `root` of its files), from a folder per class, or from a .csv or .parquet manifest.

    `options` go to the loader: `load_data("glyphs", classes=100)`, `load_data("cub200", "CUB_200_2011", crop=True)`.
    `cache=True` decodes the images once and keeps them in memory, up to 2 GiB for each of train, query and gallery.
    """
    data = spec if isinstance(spec, RetrievalData) else _load(spec, root, options)
    return data.cached() if cache else data


def _load(spec: str | Path, root: Path | str | None, options: dict[str, Any]) -> RetrievalData:
    folder = None if root is None else Path(root).expanduser()
    entry = DATASETS.get(str(spec))
    if entry is not None and (folder is not None or spec == "glyphs" or not Path(spec).exists()):
        if entry.name == "glyphs":
            return _call(entry.name, entry.load, options)
        if folder is None:
            raise DataError(f"{entry.name} needs root, the folder with {entry.files}")
        if not folder.exists():
            raise DataError(f"{folder}: no such folder; {entry.name} needs {entry.files}, from {entry.source}")
        return _call(entry.name, entry.load, options, folder)
    path = Path(spec).expanduser()
    if path.suffix in (".csv", ".parquet"):
        return _call(str(path), load_manifest, options, path, folder)
    if path.is_dir():
        return _call(str(path), load_folder, options, path)
    raise DataError(
        f"{spec}: neither a data set ({', '.join(DATASETS)}), nor a folder of images, nor a .csv or .parquet manifest"
    )


def _call(name: str, loader: Callable[..., RetrievalData], options: dict[str, Any], *arguments: Any) -> RetrievalData:
    accepted = list(inspect.signature(loader).parameters)[len(arguments) :]
    unknown = [option for option in options if option not in accepted]
    if unknown:
        raise DataError(f"{name} has no option {unknown[0]!r}; its options are {', '.join(accepted) or 'none'}")
    return loader(*arguments, **options)
