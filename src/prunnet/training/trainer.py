"""The loop that trains every method.

prunnet train --data photos/ --backbone resnet18 --out runs/a                        # one CPU or GPU
torchrun --nproc-per-node 4 -m prunnet train --data photos/ --out runs/a             # four GPUs of one machine
prunnet train --out runs/a --resume                                                  # go on after an interruption
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from prunnet._progress import Display
from prunnet.data import Batch, RetrievalData, make_loader, train_transform
from prunnet.errors import DivergedRunError, GradientError, InterruptedRunError, TrainingError
from prunnet.methods import Method, Step, StepTelemetry
from prunnet.methods.method import seed_rank
from prunnet.runs import Run, TrainConfig
from prunnet.runs.records import Records
from prunnet.training.build import build_optimiser, build_sampler, prepare_batchnorm
from prunnet.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from prunnet.training.ranks import Ranks


class LossScaler:
    """Loss scaling for fp16: gradients too small for half precision are computed on a larger loss.

    Halves the factor when a gradient overflows, doubles it after `patience` steps without. torch's own GradScaler
    inspects `.grad`, which here exists only after passes were clipped and integrated, so a step divides its scale out.
    """

    def __init__(self, enabled: bool, factor: float = 2.0**14, patience: int = 2000) -> None:
        self.enabled = enabled
        self.factor = factor if enabled else 1.0
        self.patience = patience
        self.good_steps = 0

    @property
    def helps(self) -> bool:
        """Whether a smaller factor could keep a gradient from overflowing."""
        return self.factor > 1.0

    def overflowed(self) -> None:
        """Note a step that has to be left out."""
        self.factor, self.good_steps = max(1.0, self.factor / 2), 0

    def succeeded(self) -> None:
        """Note a step whose gradients were finite."""
        if self.enabled:
            self.good_steps += 1
            if self.good_steps % self.patience == 0:
                self.factor *= 2


class Trainer:
    """Steps through the epochs of `config`; evaluation and saving are left to `after_epoch`."""

    def __init__(
        self,
        method: Method,
        data: RetrievalData,
        config: TrainConfig,
        run: Run,
        ranks: Ranks,
        *,
        after_epoch: Callable[[int, int, Records | None], None] | None = None,
        quiet: bool = False,
        give_up_after: float | None = None,
    ) -> None:
        if data.train is None:
            raise TrainingError(f"{data.name} has no training images")
        self.method, self.config, self._run, self.ranks = method, config, run, ranks
        self.after_epoch, self.quiet, self.give_up_after = after_epoch, quiet, give_up_after
        self.sampler = build_sampler(config, data.train, ranks)
        augmentation = {**data.augmentation, **config.augmentation}
        self.loader = make_loader(
            data.train,
            train_transform(method.family.preprocessing, **augmentation),
            sampler=self.sampler,
            workers=config.workers,
            on_error="raise" if config.strict else "skip",
            pin_memory=ranks.device.type == "cuda",
        )
        self.optimiser = build_optimiser(config, method, len(self.sampler))
        self.scaler = LossScaler(config.precision == "fp16")
        self.step = 0
        self.unreadable: set[str] = set()
        self._stop_requested = False
        self._saved_at = time.monotonic()

    @property
    def total_steps(self) -> int:
        return len(self.sampler) * self.config.epochs

    @property
    def done(self) -> bool:
        """Whether the last epoch is behind."""
        return self.sampler.epoch >= self.config.epochs

    def resume(self) -> bool:
        """Continue from the newest checkpoint, if there is one."""
        path = latest_checkpoint(self._run.checkpoints)
        if path is None:
            return False
        progress = load_checkpoint(path, self.method, self.optimiser)
        self.step = progress["step"]
        self.sampler.load_state_dict(progress["sampler"])
        self.scaler.factor, self.scaler.good_steps = progress["scale"]
        self.unreadable = set(progress["unreadable"])
        self.method.family.family_id = progress["family_id"]
        return True

    def run(self) -> None:
        """Train until the last epoch is done."""
        prepare_batchnorm(self.config, self.method)
        self.ranks.copy_from_main(self.method.state_dict().values())
        records = self._open_records() if self.is_main else None
        display = Display(self.total_steps, self.config.epochs, quiet=self.quiet or not self.is_main)
        with display, self._signals():
            while not self.done:
                epoch = self.sampler.epoch
                for batch in self.loader:
                    row = {"step": self.step + 1, "epoch": epoch, **self._optimise(batch)}
                    self.step += 1
                    display.step(row)
                    if records is not None:
                        records.write(row)
                    self._save_in_time()
                if self.after_epoch is not None:
                    self.after_epoch(epoch, self.step, records)
                prepare_batchnorm(self.config, self.method)
                self._save()
        if records is not None:
            records.close()
        self._report_unreadable(display)

    @property
    def is_main(self) -> bool:
        return self.ranks.is_main

    def _open_records(self) -> Records:
        resumed_at = self.step if self.step else None
        return Records(self._run.metrics_file, resume_at=resumed_at, tensorboard=self.config.tensorboard)

    def _optimise(self, batch: Batch) -> dict[str, Any]:
        """One optimisation step. Every draw is a function of (seed, step), so nothing random needs to be saved."""
        began = time.perf_counter()
        self.unreadable.update(batch.unreadable)
        if len(batch.images) < 2:
            raise TrainingError(
                f"step {self.step + 1}: no two images of the batch could be read; run prunnet data check"
            )
        rate = self.config.lr * self.config.lr_factor(self.step / len(self.sampler))
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["relative_lr"]
        seed_rank(self.config.seed, self.step, self.ranks.rank)

        step = self.method.step(self.step, scale=self.scaler.factor)
        losses = self._losses(step, batch)
        self._check(losses, batch)
        self.ranks.average(step.gradients())
        telemetry = self._update(step, batch)
        seconds = time.perf_counter() - began
        return {
            "loss": losses,
            "lr": rate,
            **({} if telemetry is None else telemetry.facts(list(losses))),
            "images_per_second": len(batch.images) * self.ranks.size / seconds,
        }

    def _update(self, step: Step, batch: Batch) -> StepTelemetry | None:
        """Move along the gradients of `step`, unless they have overflowed: half precision is then scaled by less."""
        try:
            telemetry = step.finish()
        except GradientError as error:
            if not self.scaler.helps:
                raise DivergedRunError(f"step {self.step + 1}: {error}; {self._dump(batch)}") from error
            self.scaler.overflowed()
            telemetry = None
        else:
            self.scaler.succeeded()
            if self.config.clip is not None:
                nn.utils.clip_grad_norm_(self.method.parameters(), self.config.clip)
            self.optimiser.step()
        self.optimiser.zero_grad()
        return telemetry

    def _losses(self, step: Step, batch: Batch) -> dict[str, float]:
        """The loss of each pass on the whole batch, of which `step` takes a micro-batch at a time."""
        device, parts = self.ranks.device, self.config.accumulate
        losses: dict[str, Tensor] = {}
        for images, labels in zip(batch.images.chunk(parts), batch.labels.chunk(parts), strict=True):
            share = len(images) / len(batch.images)
            part = step.backward(images.to(device, non_blocking=True), labels.to(device, non_blocking=True), share)
            for name, loss in part.items():
                losses[name] = losses.get(name, torch.zeros_like(loss)) + share * loss
        values = self.ranks.average_numbers(torch.stack(list(losses.values())).float().tolist())
        return dict(zip(losses, values, strict=True))

    def _check(self, losses: dict[str, float], batch: Batch) -> None:
        for name, loss in losses.items():
            if not -float("inf") < loss < float("inf"):
                raise DivergedRunError(
                    f"step {self.step + 1}: the loss at capacity {name} is {loss}; {self._dump(batch)}"
                )

    def _dump(self, batch: Batch) -> str:
        path = self._run.folder / f"diverged-step-{self.step + 1}-rank-{self.ranks.rank}.safetensors"
        save_file({"images": batch.images, "labels": batch.labels, "indices": batch.indices}, path)
        return f"the batch is in {path}; a lower lr or clip= usually helps"

    def _save(self) -> None:
        if self.is_main:
            progress = {
                "sampler": self.sampler.state_dict(),
                "scale": [self.scaler.factor, self.scaler.good_steps],
                "unreadable": sorted(self.unreadable),
                "family_id": self.method.family.family_id,
            }
            save_checkpoint(self._run.checkpoints, self.step, self.method, self.optimiser, progress)
        self.ranks.barrier()
        self._saved_at = time.monotonic()

    def _save_in_time(self) -> None:
        """Save when it is time to, or before stopping: all ranks, as soon as it is so for one."""
        late = time.monotonic() - self._saved_at > self.config.checkpoint_seconds
        stop, due = self.ranks.any(self._stop_requested, late)
        if stop or due:
            self._save()
        if stop:
            raise InterruptedRunError(f"stopped after step {self.step} and saved; continue with --resume")

    def _report_unreadable(self, display: Display) -> None:
        if self.unreadable and self.is_main:
            report = self._run.unreadable_file
            report.write_text("\n".join(sorted(self.unreadable)) + "\n")
            display.say(f"{len(self.unreadable)} images could not be read and were skipped; {report} names them")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM let the step end and save; a second SIGINT stops at once.

        Where the process is ours to end, it ends `give_up_after` seconds later at the latest, with the checkpoint of
        before: a step may take longer than whoever stops it waits.
        """

        def request(number: int, frame: object) -> None:  # noqa: ARG001
            if self._stop_requested and number == signal.SIGINT:
                raise KeyboardInterrupt
            self._stop_requested = True
            if self.give_up_after is not None:
                last = threading.Timer(self.give_up_after, _end_process)
                last.daemon = True
                last.start()

        try:
            before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread, which alone receives signals
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _end_process() -> None:
    """From a thread of its own, since the main one may be deep in a step; what is on disk is whole at any moment."""
    os.write(2, b"prunnet: stopped in the middle of a step; --resume goes on from the last checkpoint\n")
    os._exit(InterruptedRunError.exit_code)
