"""From one generation to the next: embed a gallery again while it goes on answering.

The new family was trained so that its queries are answered by old vectors (`old=`). An image is replaced in one step;
whatever part is done, all of the gallery answers.
"""

from dataclasses import dataclass

from prunnet.data import ImageSet
from prunnet.data.images import UNLABELLED, FilePixels
from prunnet.errors import FamilyError, SearchError
from prunnet.evaluation import CompatibilityMatrix, Encoder, embedded_batches
from prunnet.runs import Run
from prunnet.search.answers import Record
from prunnet.search.columns import Metadata
from prunnet.search.indexing import Engine, Indexed, embed_into
from prunnet.search.manifest import Evidence, Generation
from prunnet.search.protocol import VectorIndex


@dataclass
class Upgraded:
    """What came of an upgrade; `left` are the ids that are still of an older generation."""

    indexed: Indexed
    left: list[str]
    evidence: Evidence | None


def evidence_for(gallery: VectorIndex, run: Run) -> Evidence:
    """What `run` measured about asking the vectors of this gallery; a family that was not made for it is refused."""
    matrix = run.require_finished().matrix
    new_id, old_id = run.network.family_id, gallery.family_id
    old = _largest(matrix, old_id)
    new = _largest(matrix, new_id)
    if old is None or new is None:
        raise FamilyError(
            f"family {new_id} of {run.folder} was not trained compatible with family {old_id} of {gallery.place} "
            f"(prunnet train --set old=RUN); make a new gallery: prunnet index build {run.folder} IMAGES --out NEW"
        )
    values = matrix.values
    return Evidence(
        data=matrix.data,
        metric=matrix.metric,
        old_in_old=float(values[old, old]),
        new_in_old=float(values[new, old]),
        old_in_new=float(values[old, new]),
        new_in_new=float(values[new, new]),
        names=tuple(model.name for model in matrix.models),
        values=tuple(tuple(map(float, row)) for row in values),
    )


def _largest(matrix: CompatibilityMatrix, family_id: str) -> int | None:
    places = [place for place, model in enumerate(matrix.models) if model.family_id == family_id]
    return max(places, key=lambda place: matrix.models[place].capacity, default=None)


def verdict(evidence: Evidence) -> str:
    """What to expect, in a line."""
    return (
        f"{evidence.metric} on {evidence.data}: old queries in the old gallery {100 * evidence.old_in_old:.1f}, new in "
        f"the old {100 * evidence.new_in_old:.1f}, new in the new {100 * evidence.new_in_new:.1f}"
    )


def upgrade(
    gallery: VectorIndex,
    run: Run,
    encoder: Encoder,
    *,
    images: ImageSet | None = None,
    accept: bool = False,
    batch_size: int = 64,
    workers: int = 0,
    engine: Engine = embedded_batches,
) -> Upgraded:
    """Embed every image anew with a member of the family of `run`. Stopped and called again, it goes on.

    images: where they are taken from by their ids; by default from the paths that the gallery has kept.
    accept: go on although new queries do worse in the old gallery than old ones did.
    engine: a `prunnet.search.RayEngine` embeds on many machines.
    """
    with gallery.writing():
        begin(gallery, run, accept=accept)
        if encoder.family_id != gallery.family_id:
            raise FamilyError(f"the encoder is of family {encoder.family_id}, the run of family {gallery.family_id}")
        old = gallery.older()
        asked = _from_paths(old) if images is None else _by_id(images, old)
        known, done = {record.id: record.metadata for record in old}, Indexed()

        def about(place: int) -> Metadata:
            return known[asked.ids[place]]

        embed_into(gallery, encoder, asked, about, done, engine=engine, batch_size=batch_size, workers=workers)
        left = [record.id for record in gallery.older()]
        if not left:
            _retire(gallery)
        gallery.flush()
        return Upgraded(done, left, gallery.generations[-1].evidence)


def begin(gallery: VectorIndex, run: Run, *, accept: bool = False) -> None:
    """Let the gallery know the new generation, from when on its members ask and add."""
    new_id = run.network.family_id
    if new_id == gallery.family_id:
        if len(gallery.generations) == 1:
            raise SearchError(f"{gallery.place} is of family {new_id} already: there is nothing to upgrade")
        return
    if any(family_id != gallery.family_id for family_id, _ in gallery.made_by()):
        raise SearchError(
            f"{gallery.place} is being upgraded to family {gallery.family_id}; finish that first, with --to its run"
        )
    evidence = evidence_for(gallery, run)
    if evidence.new_in_old < evidence.old_in_old and not accept:
        raise SearchError(
            f"{verdict(evidence)}: until all is embedded again answers would be worse than now; --accept takes that"
        )
    gallery.set_generations(
        [
            *gallery.generations,
            Generation(family_id=new_id, made_with=str(run.folder.resolve()), evidence=evidence),
        ]
    )


def _retire(gallery: VectorIndex) -> None:
    *old, current = gallery.generations
    retired = [generation.model_copy(update={"retired": True}) for generation in old]
    gallery.set_generations([*retired, current])
    gallery.compact()


def _from_paths(records: list[Record]) -> ImageSet:
    """The images of `records`, as far as the gallery knows where they are."""
    known = [record for record in records if "path" in record.metadata]
    boxes = [tuple(map(float, str(record.metadata.get("box", "")).split())) or None for record in known]
    pixels = FilePixels([str(record.metadata["path"]) for record in known], boxes if any(boxes) else None)  # type: ignore[arg-type]
    return ImageSet(pixels, [UNLABELLED] * len(known), [], [record.id for record in known])


def _by_id(images: ImageSet, records: list[Record]) -> ImageSet:
    wanted = {record.id for record in records}
    return images.take([place for place, id in enumerate(images.ids) if id in wanted])
