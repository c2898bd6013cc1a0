"""What several commands take and say alike."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prunnet.network import Family

Gallery = Annotated[
    str, typer.Argument(metavar="GALLERY", help="The folder of a gallery, or its address (postgresql://…, milvus://…).")
]
Root = Annotated[Path | None, typer.Option(help="Folder of the images of a manifest, or of a named data set.")]
BatchSize = Annotated[int, typer.Option(help="Images embedded at once.", min=1)]
Workers = Annotated[int, typer.Option(help="Processes that read images.", min=0)]


def parse_capacities(text: str) -> tuple[float, ...]:
    """`1,.8,.2` → (1.0, 0.8, 0.2)."""
    from prunnet.errors import CapacityError
    from prunnet.network.capacity import check_capacities

    try:
        return check_capacities(float(part) for part in text.split(","))
    except ValueError as error:
        if isinstance(error, CapacityError):
            raise
        raise CapacityError(f"capacities are numbers in (0, 1] with commas between them; found {text!r}") from None


def say(text: str, style: str | None = None, *, err: bool = False) -> None:
    """Print `text` as it is: a path may hold what rich would take for markup."""
    from rich.console import Console

    Console(stderr=err).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def is_stored(source: str) -> bool:
    """Whether `source` is a path or an address, and not the name of a model."""
    from prunnet.storage.prun.source import is_address

    return is_address(source) or Path(source).exists() or len(Path(source).parts) > 1


def open_model(source: str) -> "Family":
    """A run, family, members, subnetwork or `.prun`, or a network of timm by its name."""
    import prunnet

    return prunnet.load(source) if is_stored(source) else prunnet.convert(prunnet.create_backbone(source))
