"""`prunnet.train`: a run folder from a network and data, resumable at any moment."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Any

import torch

from prunnet.data import RetrievalData, answers_of, check_augmentation
from prunnet.errors import ConfigError, TrainingError
from prunnet.network import PrunableNetwork
from prunnet.network.backbones import recipe_of
from prunnet.runs import Run, TrainConfig, resolve
from prunnet.training.build import build_method, build_network
from prunnet.training.finish import Finisher
from prunnet.training.ranks import Ranks
from prunnet.training.start_masks import StartMasks
from prunnet.training.trainer import Trainer


def train(
    network: PrunableNetwork | str | None = None,
    data: RetrievalData | str | None = None,
    *,
    out: str | os.PathLike[str],
    resume: bool = False,
    quiet: bool = False,
    give_up_after: float | None = None,
    **settings: Any,
) -> Run:
    """Train `network` on `data` and leave a run folder in `out`.

    network: a converted network (trained in place), the name of a timm model, or None for the settings' own.
    data: loaded data, what `prunnet.load_data` takes, or None for the settings' own.
    resume: go on with the run in `out`; a run that is finished is returned as it is.
    give_up_after: seconds after SIGINT or SIGTERM at which the process ends even if a step has not; None lets it end.
    settings: any of `TrainConfig`, such as `epochs=20, capacities="any", lr=0.05`.
    """
    run = Run(out)
    told = {**settings, **_settings_of(network, data)}
    config = run.resumed_config(told) if resume else resolve(told)
    if not resume and run.exists:
        raise ConfigError(f"{run.folder} already holds a run; resume it, or choose another folder")
    with Ranks(config.device) as ranks, run.lock() if ranks.is_main else nullcontext():
        loaded = data if isinstance(data, RetrievalData) else config.load_data()
        given = isinstance(network, PrunableNetwork)
        net = (network if isinstance(network, PrunableNetwork) else build_network(config)).to(ranks.device)
        options: Mapping[str, Any] = {"resume": resume, "quiet": quiet, "give_up_after": give_up_after}
        return _train(net, loaded, config, run, ranks, given=given, **options)


def _settings_of(network: PrunableNetwork | str | None, data: RetrievalData | str | None) -> dict[str, Any]:
    """What follows from objects that were handed over instead of described."""
    told: dict[str, Any] = {}
    if isinstance(network, str):
        told["backbone"] = network
    elif network is not None:
        recipe = recipe_of(network.backbone) or {"name": type(network.backbone).__name__, "options": {}}
        told |= {
            "backbone": recipe["name"],
            "backbone_options": recipe["options"],
            "ranking": network.ranking,
            "selection": network.selection.name,
            "allocation": network.selection.allocation.name,
            "score_start": network.score_start,
            "embedding_dim": network.embedding_dim,
            "input_size": network.preprocessing.input_size,
        }
    if data is not None:
        told["data"] = data.name if isinstance(data, RetrievalData) else data
    return told


def _train(
    network: PrunableNetwork,
    data: RetrievalData,
    config: TrainConfig,
    run: Run,
    ranks: Ranks,
    *,
    given: bool,
    resume: bool,
    quiet: bool,
    give_up_after: float | None,
) -> Run:
    if data.train is None:
        raise TrainingError(f"{data.name} has no training images")
    check_augmentation(config.augmentation)
    if not answers_of(data).counts().any():
        raise TrainingError(f"{data.name}: nothing in the gallery answers any query; run prunnet data check")
    if config.strict and not resume:
        for part, images in {"gallery": data.gallery, "query": data.query}.items():
            images.read_all(f"reading {part}")
    old = None if config.old is None else Run(config.old)
    method = build_method(config, network, data.train, old).to(ranks.device)
    if config.batchnorm == "synced":
        if ranks.device.type != "cuda":
            raise ConfigError("batchnorm: synced needs CUDA; use frozen or train")
        method = torch.nn.SyncBatchNorm.convert_sync_batchnorm(method)  # type: ignore[no-untyped-call]
    method.family.renew()
    start = None if given and resume else StartMasks.of(method.family)  # a network that is given may have learnt since
    finisher = Finisher(method, data, config, run, ranks, old, start)
    options: Mapping[str, Any] = {"after_epoch": finisher.after_epoch, "quiet": quiet, "give_up_after": give_up_after}
    trainer = Trainer(method, data, config, run, ranks, **options)
    resumed = resume and trainer.resume()
    if resumed and trainer.done and run.evaluated_as(config):
        return finisher.finished()
    if ranks.is_main:  # from here on there is something to resume
        run.begin(config)
    if not resumed:
        method.prepare(batch.images for batch in islice(finisher.training_images(), config.adapt_batches))
    trainer.run()
    return finisher.finish()
