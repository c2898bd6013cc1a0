"""What every index checks before it takes or answers anything: family, dimension, finite numbers, ids."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from prunnet.errors import FamilyError, SearchError
from prunnet.network import Embeddings
from prunnet.search.columns import Metadata, checked
from prunnet.search.manifest import Generation

LONGEST_ID = 4096  # bytes
LENGTH_ERROR = 0.02  # of an int8 network's normalised embedding
_SHORTEST, _LONGEST = (1 - LENGTH_ERROR) ** 2, (1 + LENGTH_ERROR) ** 2


def check_vectors(embeddings: Embeddings, dimension: int, place: object) -> Tensor:
    """The vectors on the CPU in single precision, if an index of `dimension` can hold them."""
    if not isinstance(embeddings, Embeddings):
        raise SearchError(
            f"an index takes prunnet.Embeddings, which know their family (encode makes them); found "
            f"{type(embeddings).__name__}"
        )
    vectors = embeddings.vectors.detach().float().cpu().contiguous()
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        found = f"{vectors.shape[1]} dimensions" if vectors.ndim == 2 else f"shape {tuple(vectors.shape)}"
        raise SearchError(f"{place} holds vectors of {dimension} dimensions; these have {found}")
    array = vectors.numpy()
    squares = np.vecdot(array, array)
    if not len(squares) or (squares.min() >= _SHORTEST and squares.max() <= _LONGEST):
        return vectors
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    if bad := int((~lengths.isfinite()).sum()):
        raise SearchError(
            f"{bad} of {len(vectors)} vectors hold NaN or infinity; the network that made them is damaged"
        )
    raise SearchError(f"embeddings have length 1; found one of {float(lengths[(lengths - 1).abs().argmax()]):.4g}")


def check_family(family_id: str, generations: Sequence[Generation], place: object, *, adding: bool) -> int:
    """The generation of `family_id`; a family that the index does not know is refused."""
    for number, generation in enumerate(generations):
        if generation.family_id == family_id:
            if adding and generation.retired:
                raise FamilyError(
                    f"{place} was upgraded from family {family_id} to {generations[-1].family_id}: add with the new one"
                )
            return number
    raise FamilyError(
        f"embeddings of family {family_id} do not belong into {place}, a gallery of family "
        f"{generations[-1].family_id}; use a member of that family, or make another gallery"
    )


def check_ids(ids: Iterable[str], expected: int | None = None, longest: int = LONGEST_ID) -> list[str]:
    """`ids` as a list, each a text that is there once."""
    if isinstance(ids, str):
        raise SearchError(f"ids are a sequence of texts; found one text, {ids!r}")
    names = list(ids)
    if expected is not None and len(names) != expected:
        raise SearchError(f"{len(names)} ids for {expected} vectors")
    for name in names:
        if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "surrogateescape")) <= longest:
            raise SearchError(f"an id is a text of 1 to {longest} bytes; found {str(name)[:50]!r}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SearchError(f"id {twice!r} is given twice in one call")
    return names


def check_metadata(metadata: Sequence[Metadata] | Metadata | None, expected: int) -> list[Metadata]:
    """A mapping for every row, each of which can be kept; one alone is that of all."""
    if metadata is None or isinstance(metadata, Mapping):
        return [checked(metadata or {})] * expected
    if len(metadata) != expected:
        raise SearchError(f"metadata of {len(metadata)} for {expected} vectors")
    return [checked(values) for values in metadata]


def check_k(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise SearchError(f"k is how many answers are wanted, at least 1; found {k!r}")
    return int(k)
