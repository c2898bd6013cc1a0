"""Nothing is allocated, and nothing goes on for ever, before a description fits what is stored."""

import pytest
import torch
from torch import nn

import prunnet
from prunnet.errors import FamilyError
from prunnet.storage.building import check_features_of, planned, rebuilt
from prunnet.storage.documents import NarrowRecipe, Recipe

SIZE = prunnet.Preprocessing((3, 32, 32))


def recipe(**options: object) -> Recipe:
    return Recipe(name="resnet18", options=options)


def shapes(module: nn.Module) -> list[torch.Size]:
    return [tensor.shape for tensor in module.state_dict().values()]


def test_a_plan_has_no_memory_and_draws_no_random_numbers() -> None:
    stored = shapes(prunnet.create_backbone("resnet18"))
    before = torch.random.get_rng_state()
    plan = planned(lambda: rebuilt(recipe(), "ResNet", ""), stored)
    assert all(tensor.is_meta for tensor in plan.state_dict().values()) and shapes(plan) == stored
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"layers": [60_000] * 4}, "far more layers"), ({"channels": [60_000] * 4}, "a far larger network")],
)
def test_a_plan_that_outgrows_what_is_stored_is_given_up(options: dict[str, object], message: str) -> None:
    stored = shapes(prunnet.create_backbone("resnet18"))
    with pytest.raises(FamilyError, match=message):
        planned(lambda: rebuilt(recipe(**options), "ResNet", ""), stored)
    assert len(nn.ModuleList(nn.Linear(1, 1) for _ in range(1_000))) == 1_000  # nobody else is stopped afterwards


def test_buffers_that_no_file_holds_are_bounded_as_well() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(1))
            self.register_buffer("mask", torch.empty(2**20, 2**10), persistent=False)

    with pytest.raises(FamilyError, match="4294967296 bytes of buffers beside its tensors"):
        planned(Masked, [(1,)])


def test_a_narrow_backbone_is_rebuilt_narrow() -> None:
    wide, narrow = rebuilt(recipe(), "", ""), rebuilt(NarrowRecipe(name="resnet18", options={}, width=0.5), "", "")
    assert narrow.conv1.weight.shape[0] * 2 == wide.conv1.weight.shape[0]


@pytest.mark.parametrize("planned_only", [False, True])
def test_features_that_the_head_does_not_take_are_refused(planned_only: bool) -> None:
    def build() -> nn.Module:
        return rebuilt(recipe(global_pool="catavgmax"), "", "")

    backbone = planned(build, shapes(build())) if planned_only else build()
    check_features_of(backbone, SIZE, 1024)
    with pytest.raises(FamilyError, match="gives 1024 features, its head takes 512"):
        check_features_of(backbone, SIZE, 512)
    with pytest.raises(FamilyError, match=r"does not take images of \(1, 32, 32\)"):
        check_features_of(backbone, prunnet.Preprocessing((1, 32, 32)), 1024)
