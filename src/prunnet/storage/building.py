"""A network from its description: first without memory, to see whether it is the one whose tensors are stored.

A few words can describe a network that no memory holds, so nothing is allocated, and no more layers are made than are
stored, before names and shapes agree.
"""

import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from prunnet.errors import FamilyError, PrunNetError
from prunnet.narrow.narrowing import narrow_backbone
from prunnet.network.backbones import check_features, rebuild_backbone
from prunnet.network.functional import evaluating
from prunnet.network.preprocessing import Preprocessing
from prunnet.storage.documents import NarrowRecipe, Recipe

M = TypeVar("M", bound=nn.Module)

_SPARE = 64  # parameters that timm makes and replaces, as those of a classifier,
_SPARE_VALUES = 2**24  # and their values
_UNSAVED = 2**28  # bytes of buffers that no file holds, such as attention masks


def planned(build: Callable[[], M], shapes: Collection[Sequence[int]], *, share: float = 1.0) -> M:
    """What `build` makes, without memory behind it or random numbers drawn.

    What is on its way far larger than the stored `shapes`, which are a `share` of it, is refused.
    """
    values = round(sum(map(math.prod, shapes)) / share)
    limits = _at_most(4 * len(shapes) + _SPARE, 4 * values + _SPARE_VALUES)
    with torch.random.fork_rng(devices=[]), torch.device("meta"), limits:
        plan = build()
    saved = plan.state_dict().keys()
    unsaved = sum(buffer.nbytes for name, buffer in plan.named_buffers() if name not in saved)
    if unsaved > _UNSAVED:
        raise FamilyError(f"it describes a network with {unsaved} bytes of buffers beside its tensors")
    return plan


def rebuilt(recipe: Recipe | None, backbone_class: str, how: str) -> nn.Module:
    """The backbone of `recipe`, or one line on why there is none; `how` to pass one where there is no recipe."""
    if recipe is None:
        raise FamilyError(f"its backbone {backbone_class} was not made by prunnet.create_backbone; pass one: {how}")
    try:
        backbone = rebuild_backbone({"name": recipe.name, "options": recipe.options})
        if isinstance(recipe, NarrowRecipe) and recipe.width < 1.0:
            backbone, _ = narrow_backbone(backbone, recipe.width)
    except PrunNetError:
        raise
    except Exception as error:  # timm raises whatever a wrong option leads to
        raise FamilyError(f"its backbone {recipe.name} cannot be built ({' '.join(repr(error).split())})") from error
    return backbone


@torch.no_grad()
def check_features_of(backbone: nn.Module, preprocessing: Preprocessing, features: int) -> None:
    """Refuse a backbone that does not turn its images into the `features` that the head takes."""
    images = torch.zeros(1, *preprocessing.input_size, device=next(backbone.parameters()).device)
    try:
        with evaluating(backbone):
            count = check_features(backbone(images), backbone).shape[1]
    except PrunNetError:
        raise
    except Exception as error:
        if "meta" in str(error).lower():  # a step that no plan can take, as one that looks at values
            return
        reason = (str(error).splitlines() or [repr(error)])[0]
        raise FamilyError(f"its backbone does not take images of {preprocessing.input_size} ({reason})") from error
    if count != features:
        raise FamilyError(f"its backbone gives {count} features, its head takes {features}")


@contextmanager
def described_in(folder: Path) -> Iterator[None]:
    """Say whose description it is that leads to no network."""
    try:
        yield
    except PrunNetError as error:
        raise FamilyError(f"{folder} does not describe a network that can be built: {error}") from error


@contextmanager
def _at_most(parameters: int, values: int) -> Iterator[None]:
    """Stop whoever makes more in this thread."""
    thread = threading.get_ident()

    def count(_: nn.Module, __: str, parameter: nn.Parameter) -> None:
        nonlocal parameters, values
        if threading.get_ident() == thread:
            parameters -= 1
            values -= parameter.numel()
            if parameters < 0:
                raise FamilyError("it describes far more layers than there are tensors")
            if values < 0:
                raise FamilyError("it describes a far larger network than there are values")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
