from dataclasses import fields
from inspect import signature

import pytest

from prunnet.errors import ConfigError
from prunnet.methods import SSPL, AnyCapacities, PrunNetOptions, SwitchNet
from prunnet.runs.config import FOUR, TrainConfig, resolve
from prunnet.runs.presets import PRESETS
from prunnet.runs.settings import merge_assignments, read_yaml, to_yaml
from prunnet.training.build import build_integrator


def test_later_settings_win_and_yaml_round_trips(tmp_path) -> None:
    config = resolve({"lr": 0.2, "epochs": 3}, {"lr": 0.05, "capacities": [0.5]})
    assert (config.lr, config.epochs, config.capacities) == (0.05, 3, (0.5,))
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(config))
    assert resolve(read_yaml(file)) == config


def test_assignments_are_read_as_yaml_and_reach_into_mappings() -> None:
    merged = merge_assignments({"lr": 1.0}, ["lr=5e-4", "capacities=any", "backbone_options.in_chans=1", "clip=null"])
    assert merged == {"lr": 5e-4, "capacities": "any", "backbone_options": {"in_chans": 1}, "clip": None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, "there is no setting 'epoch'; the nearest is 'epochs'"),
        ({"learning_rat": 3}, "the nearest is "),
        ({"lr": "fast"}, "lr: .*number.*found 'fast'"),
        ({"optimiser": "adam"}, "optimiser: .*'sgd' or 'adamw'.*found 'adam'"),
        ({"epochs": 0}, "epochs: .*greater than 0"),
        ({"batch_size": 10, "accumulate": 3}, "batch_size 10 must be a multiple of accumulate 3"),
        ({"classes_per_batch": 4, "images_per_class": 4}, "batch_size 32 must be classes_per_batch"),
        ({"schedule": "multistep"}, "multistep needs milestones"),
    ],
)
def test_what_no_run_can_have_is_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        resolve(settings)
    assert "\n" not in str(caught.value)


def test_broken_files_and_assignments_are_refused(tmp_path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("lr: [")
    listed = tmp_path / "listed.yaml"
    listed.write_text("- lr")
    with pytest.raises(ConfigError, match=r"broken\.yaml is no valid YAML"):
        read_yaml(broken)
    with pytest.raises(ConfigError, match="must hold settings"):
        read_yaml(listed)
    with pytest.raises(ConfigError, match="does not exist"):
        read_yaml(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="--set takes key=value"):
        merge_assignments({}, ["lr"])


def test_presets_are_the_papers_settings() -> None:
    gldv2, vit, inshop, veri = (
        resolve(PRESETS[name]) for name in ("paper-gldv2-cnn", "paper-vit", "paper-inshop", "paper-veri776")
    )
    assert all(p.batch_size == 64 and not p.normalise_step for p in (gldv2, vit, inshop, veri))
    assert all(p.capacities == (0.8, 0.6, 0.4, 0.2) for p in (gldv2, vit, inshop))
    assert veri.capacities == (0.5625, 0.25, 0.0625)
    assert (gldv2.epochs, gldv2.lr, gldv2.milestones, gldv2.weight_decay) == (30, 0.1, (5, 10, 20), 5e-4)
    assert (vit.optimiser, vit.lr, vit.warmup_epochs, vit.schedule) == ("adamw", 3e-5, 3, "cosine")
    assert (inshop.epochs, inshop.milestones) == (200, (50, 100, 150))
    assert (veri.epochs, veri.lr, veri.cosine_from) == (60, 0.01, 30)


def test_schedules_by_hand() -> None:
    multistep = resolve({"schedule": "multistep", "milestones": [2, 4], "epochs": 6})
    assert [multistep.lr_factor(e) for e in (0, 1.9, 2, 4.5)] == pytest.approx([1, 1, 0.1, 0.01])
    cosine = resolve({"schedule": "cosine", "epochs": 10})
    assert [cosine.lr_factor(e) for e in (0, 5, 10)] == pytest.approx([1, 0.5, 0])
    late = resolve({"schedule": "cosine", "epochs": 60, "cosine_from": 30})
    assert [late.lr_factor(e) for e in (0, 30, 45, 60)] == pytest.approx([1, 1, 0.5, 0])
    warm = resolve({"schedule": "constant", "epochs": 10, "warmup_epochs": 2})
    assert [warm.lr_factor(e) for e in (1, 2, 9)] == pytest.approx([0.5, 1, 1])


def test_every_setting_that_needs_it_is_explained() -> None:
    self_explaining = {
        "embedding_dim", "integrator", "granularity", "loss", "label_smoothing", "frozen_scores", "frozen_weights",
        "epochs", "optimiser", "momentum", "weight_decay", "schedule", "gamma", "warmup_epochs", "precision",
        "seed", "tensorboard",
    }  # fmt: skip
    assert {name for name, field in TrainConfig.model_fields.items() if not field.description} == self_explaining


def test_a_run_and_a_method_made_by_hand_have_the_same_defaults() -> None:
    config, options = resolve({}), PrunNetOptions()
    own = {field.name for field in fields(PrunNetOptions)} - {"capacities", "integrator"}
    assert {name: getattr(config, name) for name in own} == {name: getattr(options, name) for name in own}
    assert build_integrator(config) == options.integrator
    for method in (SwitchNet, SSPL):
        defaults = {name: p.default for name, p in signature(method).parameters.items() if p.default is not p.empty}
        settings = defaults.keys() & TrainConfig.model_fields.keys() - {"integrator"}
        assert {name: getattr(config, name) for name in settings} == {name: defaults[name] for name in settings}
    assert AnyCapacities() == AnyCapacities(config.smallest, config.random_capacities, config.distribution)
    assert config.normalise_step


@pytest.mark.parametrize(
    ("settings", "capacities"),
    [
        ({}, "any"),
        ({"optimiser": "adamw"}, "any"),
        ({"method": "joint"}, FOUR),
        ({"selection": "maps"}, FOUR),
        ({"selection": "filters"}, FOUR),
        ({"capacities": (0.5,)}, (0.5,)),
    ],
)
def test_every_capacity_is_the_default_where_it_was_measured(settings, capacities) -> None:
    assert resolve(settings).capacities == capacities


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize(("epochs", "steps", "lr"), [(12, 43, 0.1), (10, 109, 0.005), (30, 1_000, 0.1)])
def test_scores_come_as_far_in_a_short_training_as_in_a_long_one(schedule, epochs, steps, lr) -> None:
    config = resolve({"epochs": epochs, "lr": lr, "schedule": schedule})
    rates = [lr * config.lr_factor(step / steps) for step in range(epochs * steps)]
    assert sum(rates) * config.relative_score_lr(steps) == pytest.approx(500)
    by_size = resolve({"epochs": epochs, "lr": lr, "schedule": schedule, "score_start": "magnitude"})
    assert by_size.relative_score_lr(steps) == pytest.approx(config.relative_score_lr(steps) / 10)


@pytest.mark.parametrize("settings", [{"optimiser": "adamw"}, {"selection": "filters"}, {"score_lr": 1.0}])
def test_scores_are_as_fast_as_weights_where_that_was_not_measured_or_is_asked_for(settings) -> None:
    assert resolve(settings).relative_score_lr(100) == 1.0


def test_trained_weights_are_pruned_by_size_and_move_by_the_sum_of_all_passes() -> None:
    scratch, trained = resolve({}), resolve({"pretrained": True})
    assert (scratch.score_start, scratch.normalise_step, scratch.allocation) == ("random", True, "protected")
    assert (trained.score_start, trained.normalise_step, trained.allocation) == ("magnitude", False, "measured")
    assert resolve({"pretrained": True, "method": "joint"}).allocation == "protected"  # nothing there is pruned
    assert resolve({"selection": "filters"}).allocation == "uniform"
    with pytest.raises(ConfigError, match="allocation protected goes with selection connections, not filters"):
        resolve({"selection": "filters", "allocation": "protected"})


def test_learning_rates_depend_on_what_is_trained_already() -> None:
    assert resolve({}).lr == 0.1 and resolve({"optimiser": "adamw"}).lr == 1e-3
    assert resolve({"pretrained": True}).lr == 0.005 and resolve({"weights": "w", "optimiser": "adamw"}).lr == 1e-4
    assert resolve({"pretrained": True, "lr": 0.3}).lr == 0.3
