"""`prunnet index`: a gallery of images that every member of a family can ask."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from prunnet.cli.arguments import BatchSize, Gallery, Root, Workers, say

if TYPE_CHECKING:
    from prunnet.search import Engine, Indexed

app = typer.Typer(help="Make a gallery of images, change it, and look after it.", no_args_is_help=True)

Images = Annotated[
    str,
    typer.Argument(metavar="IMAGES", help="A folder, a picture, a table or manifest (.csv, .parquet), or a data set."),
]
Capacity = Annotated[float | None, typer.Option(help="Which member embeds; default: the largest there is.")]
Prefix = Annotated[str, typer.Option(help="Put before every id, which is the path of the image in its folder.")]
Unique = Annotated[bool, typer.Option("--unique", help="Leave out pictures that are there under another id.")]
Replace = Annotated[bool, typer.Option("--replace", help="Embed images again whose ids are there.")]
EngineName = Literal["process", "ray"]
EngineOption = Annotated[EngineName, typer.Option("--engine", help="Who embeds: this process, or many by Ray.")]
Concurrency = Annotated[int | None, typer.Option(help="Of ray: how many workers.", min=1, show_default="1")]
NumCpus = Annotated[int | None, typer.Option(help="Of ray: CPUs of each worker.", min=1, show_default="1")]
NumGpus = Annotated[float | None, typer.Option(help="Of ray: GPUs of each worker.", min=0, show_default="0")]
Address = Annotated[
    str | None,
    typer.Option(help="Of ray: a cluster, as auto or ray://HOST:10001.", show_default="started here, for this call"),
]


@app.command("build")
def build(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run, family or subnetwork, a .prun, or an exported .onnx.")
    ],
    images: Images,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "--store",
            "-o",
            help="Where the gallery is to be: a folder, postgresql://… or milvus://… (both names mean the same).",
        ),
    ] = "gallery",
    root: Root = None,
    capacity: Capacity = None,
    prefix: Prefix = "",
    unique: Unique = False,
    batch_size: BatchSize = 64,
    workers: Workers = 0,
    engine: EngineOption = "process",
    concurrency: Concurrency = None,
    num_cpus: NumCpus = None,
    num_gpus: NumGpus = None,
    address: Address = None,
) -> None:
    """Embed images into a gallery. Stopped and called again, it goes on where it was.

    The id of an image is its path within the folder; a folder directly in it is its class. Images that cannot be read
    are listed, and left out.

    Examples:  prunnet index build runs/a photos/ --out gallery/
               prunnet index build runs/a photos/ --store postgresql://localhost/shop
               prunnet index build runs/a photos/ --store milvus://localhost:19530/shop
               prunnet index build dense.onnx photos.parquet --engine ray --concurrency 8
    """
    options = {"prefix": prefix, "unique": unique, "batch_size": batch_size, "workers": workers}
    embed = _engine(engine, concurrency=concurrency, num_cpus=num_cpus, num_gpus=num_gpus, address=address)
    _add(out, model, images, root, capacity, engine=embed, **options)


@app.command("add")
def add(
    gallery: Gallery,
    images: Images,
    model: Annotated[
        str | None, typer.Option(help="Any member of the family.", show_default="what the gallery was built with")
    ] = None,
    root: Root = None,
    capacity: Capacity = None,
    prefix: Prefix = "",
    replace: Replace = False,
    unique: Unique = False,
    batch_size: BatchSize = 64,
    workers: Workers = 0,
    engine: EngineOption = "process",
    concurrency: Concurrency = None,
    num_cpus: NumCpus = None,
    num_gpus: NumGpus = None,
    address: Address = None,
) -> None:
    """Embed more images into a gallery. Any member of its family may; those whose ids are there are left as they are.

    Examples:  prunnet index add gallery/ more/   ·   prunnet index add gallery/ more/ --model camera.prun --unique
    """
    from prunnet.search import VectorIndex

    made_by = model or VectorIndex.open(gallery).made_with
    options = {"prefix": prefix, "replace": replace, "unique": unique, "batch_size": batch_size, "workers": workers}
    embed = _engine(engine, concurrency=concurrency, num_cpus=num_cpus, num_gpus=num_gpus, address=address)
    _add(gallery, made_by, images, root, capacity, engine=embed, **options)


@app.command("remove")
def remove(
    gallery: Gallery, ids: Annotated[list[str], typer.Argument(metavar="ID…", help="As `prunnet search` shows them.")]
) -> None:
    """Take images out of a gallery, all of those named or, if one is not there, none.

    Examples:  prunnet index remove gallery/ chair/1.jpg chair/2.jpg
    """
    from prunnet.search import VectorIndex

    index = VectorIndex.open(gallery)
    index.remove(ids)
    say(f"{len(ids):,} removed, {len(index):,} left in {index.place}")


@app.command("check")
def check(gallery: Gallery) -> None:
    """Read every byte of a gallery and compare it with what was written; names each file that is damaged.

    Of a store: that it answers, and that what it holds agrees with what it says about itself. Ends with 0 if all is
    well, with 1 otherwise.

    Examples:  prunnet index check gallery/
    """
    from prunnet.search.places import engine_for, shown

    found, vectors = engine_for(gallery).check(gallery)
    for problem in found:
        say(problem, "red", err=True)
    if found:
        raise typer.Exit(1)
    say(f"{shown(gallery)} is whole: {vectors:,} vectors", "green")


@app.command("compact")
def compact(
    gallery: Gallery,
    memory: Annotated[str, typer.Option(help="Bound of the approximate index; beyond it vectors have 8 bits.")] = "4GB",
) -> None:
    """Free the room of what was removed or replaced, and bring the approximate index up to date.

    Examples:  prunnet index compact gallery/
    """
    from prunnet.costs.quantities import format_quantity
    from prunnet.search import VectorIndex

    index = VectorIndex.open(gallery)
    before = index.bytes
    index.compact(memory)
    say(f"{index.place}: {format_quantity(before, 'B')} before, {format_quantity(index.bytes, 'B')} now")


@app.command("info")
def info(gallery: Gallery) -> None:
    """Show what a gallery holds: families, members that made its vectors, size, and how it is searched.

    Examples:  prunnet index info gallery/
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from prunnet.costs.quantities import format_quantity
    from prunnet.network.capacity import format_capacity
    from prunnet.search import VectorIndex, verdict

    index = VectorIndex.open(gallery)
    size = format_quantity(index.bytes, "B")
    table = Table(
        title=escape(f"{index.place}: {len(index):,} vectors of {index.dimension} dimensions, {size}"),
        title_justify="left",
    )
    for heading in ("family", "member", "vectors"):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    for (family_id, capacity), count in index.made_by().items():
        table.add_row(family_id, format_capacity(capacity), f"{count:,}")
    Console().print(table)
    for generation in index.generations:
        current = generation is index.generations[-1]
        state = "retired" if generation.retired else "current" if current else "being replaced"
        say(f"family {generation.family_id}: {state}")
        if generation.evidence is not None:
            say(f"  {verdict(generation.evidence)}")
    for note in index.notes():
        say(note)


@app.command("upgrade")
def upgrade(
    gallery: Gallery,
    to: Annotated[Path, typer.Option("--to", help="The run of the new family, trained with old=.")],
    images: Annotated[
        str | None,
        typer.Option(help="Where the images are, by id.", show_default="the paths that the gallery has kept"),
    ] = None,
    root: Root = None,
    capacity: Capacity = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Go on although new queries do worse in the old gallery than old ones.")
    ] = False,
    batch_size: BatchSize = 64,
    workers: Workers = 0,
    engine: EngineOption = "process",
    concurrency: Concurrency = None,
    num_cpus: NumCpus = None,
    num_gpus: NumGpus = None,
    address: Address = None,
) -> None:
    """Embed a gallery anew by a new generation, while it goes on answering. Stopped and called again, it goes on.

    The new family must have been trained compatible with that of the gallery; what its run measured is shown.

    Examples:  prunnet train --data photos/ --set old=runs/a --out runs/b
               prunnet index upgrade gallery/ --to runs/b
    """
    from prunnet.runs import Run
    from prunnet.search import VectorIndex, images_in, open_encoder, verdict
    from prunnet.search import upgrade as upgrade_gallery

    index, run = VectorIndex.open(gallery), Run(to)
    run.require_finished()
    done = upgrade_gallery(
        index,
        run,
        open_encoder(to, capacity),
        images=None if images is None else images_in(images, root),
        accept=accept,
        batch_size=batch_size,
        workers=workers,
        engine=_engine(engine, concurrency=concurrency, num_cpus=num_cpus, num_gpus=num_gpus, address=address),
    )
    if done.evidence is not None:
        say(verdict(done.evidence))
    _list_unreadable(done.indexed)
    say(f"{index.place}: {done.indexed.added:,} of {len(index):,} embedded anew by family {index.family_id}")
    if done.left:
        say(
            f"{len(done.left):,} are still of an older family, {done.left[0]} among them, and go on answering: put "
            "their images back and call this again, name them with --images, or remove them",
            "yellow",
        )
        raise typer.Exit(1)


def _add(gallery: str, model: str, images: str, root: Path | None, capacity: float | None, **options: Any) -> None:
    from prunnet.network.capacity import format_capacity
    from prunnet.search import VectorIndex, images_in, index, open_encoder

    found = images_in(images, root)
    encoder = open_encoder(model, capacity)
    done = index(gallery, encoder, found, made_with=model, **options)
    _list_unreadable(done)
    made = VectorIndex.open(gallery)
    say(f"{made.place}: {done}, by the {format_capacity(encoder.capacity)} network of family {encoder.family_id}")
    say(f"{len(made):,} vectors; ask it: prunnet search {made.place} QUERY.jpg --model {model}")


def _engine(name: EngineName, **settings: Any) -> "Engine":
    from prunnet.errors import ConfigError
    from prunnet.evaluation import embedded_batches
    from prunnet.search import RayEngine

    given = {key: value for key, value in settings.items() if value is not None}
    if name == "ray":
        return RayEngine(**given)
    for key in given:
        raise ConfigError(f"--{key.replace('_', '-')} is for --engine ray")
    return embedded_batches


def _list_unreadable(done: "Indexed") -> None:
    for message in done.unreadable:
        say(message, "yellow", err=True)
