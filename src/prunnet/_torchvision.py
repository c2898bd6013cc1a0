"""Lets torchvision and timm import where torchvision's wheel was built for CUDA and torch was not.

Such a wheel cannot load its compiled operators, and `import torchvision` then fails because the schemas of two of
them (`nms`, `qnms`) are missing, although nothing here calls them. Declaring the two schemas is enough: transforms and
models are plain Python. Where torchvision loads by itself nothing is done.

Import timm and torchvision through `require_torchvision()`, inside functions, so that nobody pays for them unasked.
"""

import importlib
import importlib.util
from functools import cache

import torch


@cache
def require_torchvision() -> None:
    """Make `import torchvision` and `import timm` work. Safe to call any number of times."""
    if importlib.util.find_spec("torchvision") is None:
        return  # the import error of whoever needs it is the clearest
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        _declare_missing_operators()
        importlib.import_module("torchvision")


def _declare_missing_operators() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for operator in ("nms", "qnms"):
        schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define(schema)  # type: ignore[no-untyped-call]
    _KEPT_ALIVE.append(library)  # a collected Library withdraws its schemas


_KEPT_ALIVE: list[torch.library.Library] = []
