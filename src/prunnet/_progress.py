"""What a person sees of long work: a progress bar on a terminal; elsewhere nothing, or a plain line now and then."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")


SECONDS_BETWEEN_LINES = 15


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield `items` while showing how many are done and how long the rest will take."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if total is None:
        with suppress(TypeError):
            total = len(items)  # type: ignore[arg-type]
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from _say_now_and_then(console, items, description, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total=total, description=description)


def _say_now_and_then(console: "Console", items: Iterable[T], description: str, total: int | None) -> Iterator[T]:
    began = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if now - last > SECONDS_BETWEEN_LINES:
            last = now
            of = "" if total is None else f" of {total}"
            left = f", {(now - began) / done * (total - done):.0f} s left" if total is not None and done else ""
            console.print(f"{description}: {done}{of}{left}", markup=False, highlight=False, soft_wrap=True)
        yield item


class Display:
    """Epoch, loss per subnetwork, images per second, conflict rate and the time left."""

    def __init__(self, total_steps: int, epochs: int, *, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self._console = Console(stderr=True, quiet=quiet)
        self._live = self._console.is_terminal and not quiet
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}", table_column=Column()),  # cut off before the time left is
        )
        self._progress = Progress(*columns, console=self._console, disable=not self._live)
        self._epochs, self._total = epochs, total_steps
        self._task = self._progress.add_task("training", total=total_steps, numbers="")
        self._last_line = time.monotonic()
        self._started: tuple[float, int] | None = None

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def step(self, row: dict[str, Any]) -> None:
        """Show the state after a step."""
        now = time.monotonic()
        self._started = self._started or (now, row["step"])
        numbers = " ".join(f"{name}:{value:.3f}" for name, value in row["loss"].items())
        numbers += f" · {row['images_per_second']:.0f} img/s"
        if row.get("conflicts") is not None:
            numbers += f" · {100 * row['conflicts']:.0f} % conflicts"
        epoch = f"epoch {row['epoch'] + 1}/{self._epochs}"
        self._progress.update(self._task, completed=row["step"], description=epoch, numbers=numbers)
        if not self._live and (now - self._last_line > SECONDS_BETWEEN_LINES or row["step"] == self._total):
            self._last_line = now
            began, first = self._started
            left = (now - began) / max(1, row["step"] - first) * (self._total - row["step"])
            self.say(f"{epoch} step {row['step']}/{self._total} {numbers} · {left:.0f} s left")

    def say(self, text: str) -> None:
        """One line above the live display."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
