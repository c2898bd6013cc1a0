"""Embeddings that know where they come from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from prunnet.errors import FamilyError


@dataclass(frozen=True, eq=False)
class Embeddings:
    """L2-normalised vectors `[n, d]`, with the family and capacity of the subnetwork that made them."""

    vectors: Tensor
    family_id: str
    capacity: float

    def __len__(self) -> int:
        return len(self.vectors)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.vectors.cpu().numpy(), dtype=dtype, copy=copy)

    def similarity(self, gallery: "Embeddings") -> Tensor:
        """Cosine similarity `[n, m]` to `gallery`, which must be of the same family."""
        if gallery.family_id != self.family_id:
            raise FamilyError(
                f"embeddings of family {self.family_id} cannot be compared with those of family {gallery.family_id}"
            )
        return self.vectors @ gallery.vectors.T
