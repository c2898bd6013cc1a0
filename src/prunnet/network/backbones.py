"""Backbones: created by timm's name, so that a family folder can rebuild them, and what can be pruned in any."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from prunnet._torchvision import require_torchvision
from prunnet.errors import ModuleError, first_line

Prunable = Iterable[str] | Callable[[str, nn.Module], bool]

# Options of timm.create_model that say where weights come from; loading them may run code.
_ABOUT_WEIGHTS = {"checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"}

# The attribute under which a backbone carries what `create_backbone` was called with.
_RECIPE = "prunnet_recipe"


def create_backbone(name: str, *, pretrained: bool = False, **options: Any) -> nn.Module:
    """timm's model `name` without classifier; remembers `options`, so that `prunnet.load` can rebuild it."""
    require_torchvision()
    import timm

    if not timm.is_model(name):
        near = get_close_matches(name, timm.list_models(), n=3)
        raise ModuleError(f"timm has no model {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    try:
        module: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    except (TypeError, ValueError, KeyError, AssertionError, AttributeError) as error:
        raise ModuleError(f"timm cannot make {name} with the options {options}: {first_line(error)}") from error
    return with_recipe(module, {"name": name, "options": {k: v for k, v in options.items() if k not in _ABOUT_WEIGHTS}})


def with_recipe(backbone: nn.Module, recipe: dict[str, Any] | None) -> nn.Module:
    """`backbone`, carrying what `create_backbone` builds its architecture from; needed once its shapes have changed."""
    setattr(backbone, _RECIPE, recipe)
    return backbone


def rebuild_backbone(recipe: dict[str, Any]) -> nn.Module:
    """The architecture that `recipe_of` described. A file may shape a backbone, never name weights for timm to load."""
    if forbidden := _ABOUT_WEIGHTS & recipe["options"].keys():
        raise ModuleError(
            f"its recipe asks timm to load weights ({', '.join(sorted(forbidden))}), which no file may do"
        )
    return create_backbone(recipe["name"], **recipe["options"])


def recipe_of(backbone: nn.Module) -> dict[str, Any] | None:
    """What `create_backbone` needs to build this architecture again, or None for a module it cannot build."""
    recipe: dict[str, Any] | None = getattr(backbone, _RECIPE, None)
    if recipe is not None:
        return recipe
    name = (getattr(backbone, "pretrained_cfg", None) or {}).get("architecture")
    if name is None:
        return None
    try:
        with torch.device("meta"):
            again = create_backbone(name)
    except (ModuleError, RuntimeError):
        return None
    same = _shapes(again) == _shapes(backbone)
    return {"name": name, "options": {}} if same else None


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in module.state_dict().items()}


def prunable_parameters(backbone: nn.Module, prunable: Prunable | None = None) -> dict[str, nn.Parameter]:
    """The weights that carry scores, by parameter name: every Conv2d, Linear and attention projection, or fewer.

    `prunable` narrows them: names of layers or parameters, `*` allowed, or a predicate of (layer name, layer).
    """
    layer_of: dict[str, tuple[str, nn.Module]] = {}
    for layer_name, layer in backbone.named_modules():
        for name in _weight_names(layer):
            layer_of[f"{layer_name}.{name}" if layer_name else name] = (layer_name, layer)
    # named_parameters lists a shared parameter once, under its first name
    candidates = {name: weight for name, weight in backbone.named_parameters() if name in layer_of}
    if not candidates:
        raise ModuleError(f"{type(backbone).__name__} has no Conv2d or Linear layer, so there is nothing to prune")
    admitted = _admitted({name: layer_of[name] for name in candidates}, prunable)
    if not admitted:
        raise ModuleError(
            f"prunable admits none of the {len(candidates)} prunable layers, such as {next(iter(candidates))!r}"
        )
    for layer_name, layer in (layer_of[name] for name in candidates if name in admitted):
        if "StdConv2d" in type(layer).__name__:  # timm's StdConv2d, ScaledStdConv2d and their Same variants
            raise ModuleError(
                f"{layer_name} is a {type(layer).__name__}, which standardises its weights at every call: a pruned "
                "connection would not stay zero; narrow prunable= to other layers, or take another backbone"
            )
    return {name: weight for name, weight in candidates.items() if name in admitted}


def _admitted(layer_of: Mapping[str, tuple[str, nn.Module]], prunable: Prunable | None) -> set[str]:
    """The parameters, of those whose layers are given, that `prunable` lets through."""
    if prunable is None:
        return set(layer_of)
    if callable(prunable):
        return {name for name, layer in layer_of.items() if prunable(*layer)}
    admitted: set[str] = set()
    for pattern in (prunable,) if isinstance(prunable, str) else prunable:
        matches = {n for n, (layer, _) in layer_of.items() if fnmatchcase(n, pattern) or fnmatchcase(layer, pattern)}
        if not matches:
            layers = [layer_name for layer_name, _ in layer_of.values()]
            near = get_close_matches(pattern, layers, n=1) or layers[:1]
            raise ModuleError(f"prunable names {pattern!r}, which is no prunable layer; the nearest is {near[0]!r}")
        admitted |= matches
    return admitted


def _weight_names(layer: nn.Module) -> Iterable[str]:
    if isinstance(layer, nn.Conv2d | nn.Linear):
        yield "weight"
    elif isinstance(layer, nn.MultiheadAttention):
        yield from ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")


def check_features(features: Any, backbone: nn.Module) -> Tensor:
    """Return the features of `backbone` if they are `[batch, features]`, or say what is missing."""
    name = type(backbone).__name__
    if not isinstance(features, Tensor):
        raise ModuleError(f"{name} returns a {type(features).__name__}; a backbone must return one tensor")
    if features.ndim != 2:
        raise ModuleError(
            f"{name} returns features of shape {tuple(features.shape)}; they must be [batch, features]: "
            "add global pooling (timm: num_classes=0 without global_pool='')"
        )
    return features


def is_attention(layer: Any) -> bool:
    """timm's self-attention in the form whose heads are independent of each other and of the token width."""
    return (
        all(isinstance(getattr(layer, name, None), nn.Linear) for name in ("qkv", "proj"))
        and all(isinstance(getattr(layer, name, None), int) for name in ("num_heads", "head_dim", "attn_dim"))
        and isinstance(getattr(layer, "norm", None), nn.Identity)
        and getattr(layer, "gate", None) is None
        and layer.qkv.out_features == 3 * layer.proj.in_features
    )
