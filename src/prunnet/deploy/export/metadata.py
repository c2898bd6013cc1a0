"""What travels inside every exported file: family, capacity and how images become input."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prunnet import __version__
from prunnet.errors import ExportError
from prunnet.network import Preprocessing, Subnetwork

Precision = Literal["fp32", "int8"]


@dataclass(frozen=True)
class Metadata:
    """Read back by `load_exported`; a device without prunnet finds the same text under the keys of `as_text`."""

    family_id: str
    capacity: float
    preprocessing: Preprocessing
    precision: Precision = "fp32"

    @classmethod
    def of(cls, subnetwork: Subnetwork, precision: Precision) -> "Metadata":
        return cls(subnetwork.family_id, subnetwork.capacity, subnetwork.preprocessing, precision)

    def as_text(self) -> dict[str, str]:
        return {
            "prunnet_version": __version__,
            "family_id": self.family_id,
            "capacity": repr(self.capacity),
            "preprocessing": json.dumps(vars(self.preprocessing)),
            "precision": self.precision,
        }

    @classmethod
    def from_text(cls, text: Mapping[str, str], file: object) -> "Metadata":
        try:
            precision: Precision = "int8" if text["precision"] == "int8" else "fp32"
            preprocessing = Preprocessing(**json.loads(text["preprocessing"]))
            return cls(text["family_id"], float(text["capacity"]), preprocessing, precision)
        except (KeyError, ValueError, TypeError) as error:
            raise ExportError(
                f"{file} was not written by prunnet.export: its metadata is missing or foreign"
            ) from error
