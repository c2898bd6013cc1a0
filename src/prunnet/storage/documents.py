"""What the `config.json` of a stored network says, checked once: every type, every number, nothing unknown.

Version 1 of each format is read as the newest one: what it lacks has a value, and what it said beyond is left out.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from prunnet.errors import FamilyError
from prunnet.network.preprocessing import Preprocessing
from prunnet.network.ranking import Ranking

LARGEST_TENSOR = 2**31 - 1  # positions are 32-bit
_LARGEST_OPTION = 2**16  # no architecture is deeper or wider; timm makes lists of these lengths before any layer
_LARGEST_SIDE = 2**12

Size = Annotated[int, Field(ge=1, le=LARGEST_TENSOR)]
Side = Annotated[int, Field(ge=1, le=_LARGEST_SIDE)]
Capacity = Annotated[float, Field(gt=0, le=1)]
Word = Annotated[str, Field(pattern=r"^[\w.-]{1,200}$")]
Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]
Interpolation = Literal["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"]


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float):
        yield value


def _checked_options(options: dict[str, Any]) -> dict[str, Any]:
    for number in _numbers(options):
        if not abs(number) <= _LARGEST_OPTION:  # neither is NaN
            raise ValueError(f"{number} is no size of a network")
    return options


Options = Annotated[dict[str, Any], AfterValidator(_checked_options)]


class Checked(BaseModel):
    """Types as they are, no key unknown, no number that is none."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Recipe(Checked):
    """What `prunnet.create_backbone` is called with."""

    name: Word
    options: Options


class NarrowRecipe(Recipe):
    """The same, of which `width` of the channels are left."""

    width: Capacity = 1.0


class PreprocessingDocument(Checked):
    """The fields of `Preprocessing`."""

    input_size: tuple[Side, Side, Side]
    mean: tuple[float, ...]
    std: tuple[Annotated[float, Field(gt=0)], ...]
    interpolation: Interpolation
    crop_pct: Annotated[float, Field(gt=0, le=_LARGEST_SIDE)]

    @model_validator(mode="after")
    def _one_value_per_channel(self) -> "PreprocessingDocument":
        for values in (self.mean, self.std):
            if len(values) != self.input_size[0]:
                raise ValueError(f"{len(values)} values for {self.input_size[0]} channels")
        return self

    def preprocessing(self) -> Preprocessing:
        return Preprocessing(**dict(self))


class Document(Checked):
    """What every `config.json` has."""

    name: ClassVar[str]
    newest: ClassVar[int] = 2
    alone: ClassVar[bool] = False
    """Whether it carries its own checksum; the tensors beside it hold it otherwise."""

    format: str
    version: int
    family_id: Line

    @classmethod
    def upgraded(cls, older: Mapping[str, Any]) -> dict[str, Any]:
        """What an older version said, in the words of the newest."""
        return {**{key: value for key, value in older.items() if key in cls.model_fields}, "version": cls.newest}


class FamilyDocument(Document):
    """One network whose subnetworks are nested.

    Version 1 said `structured` where 2 names the selection; before 3 every layer kept the same share.
    """

    name = "family"
    newest = 3
    format: Literal["prunnet-family"] = "prunnet-family"
    version: Literal[3] = 3
    backbone: NarrowRecipe | None
    backbone_class: Word
    embedding_dim: Size
    prunable: Annotated[tuple[str, ...], Field(min_length=1)]
    ranking: Ranking
    selection: Literal["connections", "filters"]
    sensitivities: tuple[Annotated[float, Field(gt=0)], ...] | None
    """Of the prunable layers, by which a capacity is divided among them; None: the same share of each."""
    preprocessing: PreprocessingDocument
    capacities: tuple[Capacity, ...]
    adapted: tuple[Capacity, ...]

    @classmethod
    def upgraded(cls, older: Mapping[str, Any]) -> dict[str, Any]:
        selection = "filters" if older.get("structured") is True else "connections"
        return {"selection": selection, "sensitivities": None, **super().upgraded(older)}

    @model_validator(mode="after")
    def _one_sensitivity_per_layer(self) -> "FamilyDocument":
        if self.sensitivities is not None:
            if self.selection != "connections":
                raise ValueError(f"sensitivities go with connections, not with {self.selection}")
            if len(self.sensitivities) != len(self.prunable):
                raise ValueError(f"{len(self.sensitivities)} sensitivities for {len(self.prunable)} layers")
        return self


class MembersDocument(Document):
    """A network per capacity. Version 1 did not say which family the members extend."""

    name = "members"
    alone = True
    format: Literal["prunnet-members"] = "prunnet-members"
    version: Literal[2] = 2
    capacities: Annotated[tuple[Capacity, ...], Field(min_length=1)]
    compatible: bool
    base: str | None

    @classmethod
    def upgraded(cls, older: Mapping[str, Any]) -> dict[str, Any]:
        return {"compatible": True, "base": None, **super().upgraded(older)}


class SubnetworkDocument(Document):
    """One subnetwork."""

    name = "subnetwork"
    format: Literal["prunnet-subnetwork"] = "prunnet-subnetwork"
    version: Literal[2] = 2
    capacity: Capacity
    adapted: bool
    backbone: NarrowRecipe | None
    backbone_class: Word
    shapes: dict[str, Annotated[tuple[Size, ...], Field(min_length=1, max_length=2)]]
    embedding_dim: Size
    features: Size
    preprocessing: PreprocessingDocument

    @classmethod
    def upgraded(cls, older: Mapping[str, Any]) -> dict[str, Any]:
        return {"shapes": {}, **super().upgraded(older)}


D = TypeVar("D", bound=BaseModel)


def described(kind: type[D], **content: Any) -> D:
    """The document of what is to be stored; what could not be read back is refused."""
    try:
        return parse(kind, content, "this network cannot be stored")
    except TypeError as error:
        raise FamilyError(f"this network cannot be stored: {error}") from error


def parse(kind: type[D], content: bytes | Mapping[str, Any], what: str) -> D:
    """The document that JSON `content` is, or one line that begins with `what` and says where it is wrong."""
    try:
        return kind.model_validate_json(content if isinstance(content, bytes) else json.dumps(content))
    except RecursionError:
        raise FamilyError(f"{what}: it is nested too deeply") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = f"{where}: {first['msg']}" if where else first["msg"]
        raise FamilyError(f"{what}: {' '.join(message.split())}") from None
