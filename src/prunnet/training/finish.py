"""Adaptive BN, evaluation and saving: after an epoch when asked, and at the end.

All ranks take part: each embeds its share of the subnetworks, so that none waits for another longer than a subnetwork
takes. The main one writes.
"""

from collections.abc import Iterable

from prunnet.data import Batch, RetrievalData, shuffled_loader
from prunnet.evaluation import CompatibilityMatrix, evaluate
from prunnet.methods import Method
from prunnet.network import PrunableNetwork, batchnorm
from prunnet.runs import Run, TrainConfig
from prunnet.runs.records import Records
from prunnet.runs.training_plots import plot_records
from prunnet.training.ranks import Ranks
from prunnet.training.start_masks import StartMasks


class Finisher:
    """What follows the steps of an epoch, and those of the last."""

    def __init__(
        self,
        method: Method,
        data: RetrievalData,
        config: TrainConfig,
        run: Run,
        ranks: Ranks,
        old: Run | None,
        start: StartMasks | None,
    ) -> None:
        self.method, self.data, self.config, self.run, self.ranks, self.old = method, data, config, run, ranks, old
        self.family, self.start = method.family, start

    def finished(self) -> Run:
        """What an earlier call has left."""
        if isinstance(self.family, PrunableNetwork) and self.family.selection.nested:  # an own backbone has no name
            self.run.network = self.run.load_network(self.family.backbone)
        return self.run

    def after_epoch(self, epoch: int, step: int, records: Records | None) -> None:
        """Note how far the masks have come. Evaluate if it is time to, and keep the best family so far.

        records: the main rank's.
        """
        if records is not None and self.start is not None:
            records.write({"step": step, "epoch": epoch, "start": self.start.remaining()})
        every, last = self.config.evaluate_every, epoch + 1 == self.config.epochs
        if not every or (epoch + 1) % every or last:
            return
        trained = {name: tensor.clone() for name, tensor in batchnorm.buffers(batchnorm.layers(self.method)).items()}
        self._adapt()
        value = float(self._evaluate().values[:, 0].mean())  # every capacity queries the dense gallery
        if records is not None:
            best = max((row["evaluation"] for row in self.run.records if "evaluation" in row), default=-1.0)
            if value > best:  # first, so that a row never speaks of a folder that is not there
                self.run.save_network(self.family, self.run.best)
            records.write({"step": step, "epoch": epoch, "evaluation": value})
        self.family.forget()
        batchnorm.put_buffers(self.method, trained)
        self.ranks.barrier()

    def finish(self) -> Run:
        """The trained family with its matrix."""
        self._adapt()
        if self.ranks.is_main:
            self.run.save_network(self.family)
            if self.method.classifier is not None and self.data.train is not None:
                self.run.save_classifier(self.method.classifier, self.data.train.label_names)
        matrix = self._evaluate()
        if self.ranks.is_main:
            plot_records(self.run.records, self.run.plots)
            self.run.finish(self.family, matrix)
        self.run.network, self.run.matrix = self.family, matrix
        return self.run

    def training_images(self) -> Iterable[Batch]:
        """Preprocessed as for inference."""
        assert self.data.train is not None
        config = self.config
        return shuffled_loader(
            self.data.train, self.family.preprocessing, config.batch_size, config.workers, on_error="skip"
        )

    def _adapt(self) -> None:
        """Statistics of images as they are, for every network there is; then everything is as for inference.

        Those from training are of augmented images and weights now gone, and networks agree only if they are adapted to
        the same images. Those of a prunable network are aligned.
        """
        family, config = self.family, self.config
        wanted = family.available((1.0, *family.capacities, *self._capacities()))
        options = {"align_batches": config.align_batches} if isinstance(family, PrunableNetwork) else {}
        family.adapt(self.training_images(), wanted, adapt_batches=config.adapt_batches, **options)
        self.method.eval()

    def _evaluate(self) -> CompatibilityMatrix:
        old = None if self.old is None else self.old.network
        another = old is not None and old.family_id != self.family.family_id
        return evaluate(
            self.family,
            self.data,
            self._capacities(),
            self.config.metric,
            old=old if another else None,
            old_capacities=(1.0, *old.capacities) if old is not None else (),
            workers=self.config.workers,
            device=self.ranks.device,
            ranks=self.ranks,
            on_error="raise" if self.config.strict else "skip",
        )

    def _capacities(self) -> tuple[float, ...]:
        """Those asked for, of those there are."""
        return self.family.available(self.config.evaluate_capacities or (1.0, *self.family.capacities))
