"""What every fuzzer does: make a mutant, open it, and hold what happens against what is promised.

Nothing is executed, nothing hangs, nothing takes memory that the file does not account for, what is refused is refused
in one line, and what is accepted is what was written.
"""

import re
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Protocol

from prunnet.errors import PrunNetError

SECONDS = 10  # for one mutant


class Subject(Protocol):
    """A format: makes a mutant from random numbers and opens it."""

    name: str
    megabytes: int
    """By which the process may grow."""

    def attempt(self, rng: Random) -> str:
        """Open a mutant: says in a word what was accepted, raises what the format raises, or `WrongError`."""


class WrongError(Exception):
    """A mutant that was accepted and is not what was written."""


class _Hang(BaseException):
    pass


def fuzz(
    subject: Subject,
    canary: Path,
    *,
    seed: int,
    count: int | None,
    seconds: float | None,
    only: int | None = None,
    start: int = 0,
) -> int:
    """How many mutants broke a promise. A mutant depends on `seed` and its number, so that `only` makes it again."""
    outcomes: Counter[str] = Counter()
    findings: Counter[str] = Counter()  # those alike are shown once
    began, grown = time.monotonic(), _megabytes()
    least = grown
    for number in _numbers(count, seconds, only, start):
        outcome = _outcome(lambda number=number: subject.attempt(Random(f"{subject.name}-{seed}-{number}")))
        if canary.exists():
            outcome = "finding: executed"
            canary.unlink()
        if number == start + 100:
            least = grown = _megabytes()  # caches are warm
        if _megabytes() > max(grown, least + subject.megabytes):
            outcome = f"finding: memory grew to {_megabytes() - least:.0f} MB ({outcome})"
        grown = max(grown, _megabytes())
        kind = outcome.partition(":")[0]
        outcomes[kind] += 1
        if kind == "finding":
            said = outcome.removeprefix("finding: ")
            alike = re.sub(r"'.*'|\".*\"|\d+", "…", said.partition(" at ")[0]) + said.partition(" at ")[2]
            if not findings[alike]:
                print(f"{subject.name} {number}: {said}", flush=True)
            findings[alike] += 1
    taken = time.monotonic() - began
    total = sum(outcomes.values())
    parts = ", ".join(f"{kind} {number}" for kind, number in sorted(outcomes.items()))
    print(f"{subject.name}: {total} mutants of seed {seed} in {taken:.0f} s: {parts}; grew by {grown - least:.0f} MB")
    print(f"{subject.name}_findings: {findings.total()}", flush=True)
    return findings.total()


def _numbers(count: int | None, seconds: float | None, only: int | None, start: int) -> Iterator[int]:
    if only is not None:
        yield only
        return
    began, number = time.monotonic(), start
    while (count is None or number < start + count) and (seconds is None or time.monotonic() - began < seconds):
        yield number
        number += 1


def _outcome(attempt: Callable[[], str]) -> str:
    try:
        with _alarm():
            return attempt()
    except PrunNetError as error:
        return "refused" if "\n" not in str(error) else f"finding: an error of several lines: {str(error)!r:.300}"
    except WrongError as error:
        return f"finding: {error}"
    except _Hang:
        where = "".join(traceback.format_exc().splitlines()[-4:])
        return f"finding: it takes more than {SECONDS} s ({where})"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))
        return f"finding: {type(error).__name__}: {str(error)!r:.200} at {where}"


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
