"""A gallery whose writer is killed is what it was before the call or after it, and the next writer goes on."""

import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from tests.reliability.killing import _PROCESSES, _start, every_kill, run
from tests.search import works
from tests.search.vectors import Contents, contents, names, some

import prunnet
from prunnet.search import images_in, open_encoder
from prunnet.search.checking import problems
from prunnet.search.folder import FolderIndex


def held(folder: Path) -> Contents:
    found, count = problems(folder)
    assert not found
    rows = contents(FolderIndex(folder))
    assert len(rows) == count
    return rows


def swept(folder: Path) -> bool:
    """Whether nothing is left but what the manifest names."""
    named = {"manifest.json", *(file.name for file in FolderIndex(folder).manifest.files)}
    return {path.name for path in folder.iterdir()} == named


@pytest.mark.parametrize("work", [works.add, works.remove, works.compact], ids=lambda work: work.__name__)
def test_killed_before_any_file_operation_it_is_as_before_or_as_after(
    tmp_path: Path, work: Callable[..., None]
) -> None:
    prepared, root = tmp_path / "prepared", tmp_path / "root"
    works.prepare(prepared)
    before = held(prepared)
    shutil.copytree(prepared, root)
    work(root)
    after, seen = held(root), set()
    at = 0
    while True:
        at += 1
        shutil.rmtree(root)
        shutil.copytree(prepared, root)
        if not run(work, root, root, at=at).killed:
            break
        found = held(root)
        assert found in (before, after), f"killed at operation {at}"
        seen.add(found == after)
        FolderIndex(root).add(some(1, seed=5), ["one more"])
        assert held(root).keys() == found.keys() | {"one more"} and swept(root)
    assert at > 10 and (work is works.compact or seen == {True, False})


@pytest.mark.slow
def test_killed_while_segments_are_merged_nothing_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "root"
    works.prepare(root)
    least = held(root).keys()
    for at in range(5, 400, 9):
        killed = run(works.merge, root, root, at=at).killed
        found = held(root)
        assert found.keys() >= least and found.keys() <= {*least, *names(7, 20)}
        least = found.keys()
        if not killed:
            break
    assert held(root).keys() == {*names(5, 1), *names(7, 20)}


@pytest.mark.slow
def test_a_gallery_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "gallery"
    for at in every_kill(works.prepare, tmp_path, place):
        if (place / "manifest.json").exists():
            held(place)
            shutil.rmtree(place)
        assert at or not place.exists() or held(place) is not None


class Victim:
    """A process that tells when it begins a call and when it has ended it."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        _start()
        self._told, sender = _PROCESSES.Pipe(duplex=False)
        self._process = _PROCESSES.Process(target=work, args=(*arguments, sender))
        self._process.start()
        sender.close()
        self.ended: list[str] = []
        self.under_way: str | None = None

    def listen(self) -> bool:
        """To one message; False when the process is gone and has nothing more to tell."""
        try:
            what, kind = self._told.recv()
        except EOFError:
            return False
        if what == works.ENDED:
            self.ended.append(kind)
        self.under_way = kind if what == works.BEGUN else None
        return True

    def kill(self, moment: float) -> str | None:
        """After `moment` seconds; the call that was under way, or None."""
        self._process.join(moment)
        self._process.kill()
        while self.listen():
            pass
        self._process.join()
        return self.under_way if self._process.exitcode == -signal.SIGKILL else None


KILLS = 25
"""That hit, of each kind of call."""


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost_and_nothing_half_there(tmp_path: Path) -> None:
    """What is there is the state after the last call that ended, or after the one that was under way."""
    folder, seed, random, done = tmp_path / "gallery", 0, Random(0), 0
    prunnet.VectorIndex.create(folder, some(1))
    oracle = FolderIndex.make(tmp_path / "oracle", "family-a", works.DIMENSION)
    hits, longest = Counter[str](), dict.fromkeys(("add", "remove", "compact"), 0.01)
    while min(hits[kind] for kind in longest) < KILLS:
        wanted = min(longest, key=lambda kind: hits[kind])
        victim = Victim(works.go_on, folder, seed, done)
        while victim.under_way != wanted:
            began, kind = time.perf_counter(), victim.under_way
            assert victim.listen()
            if kind is not None:
                longest[kind] = max(longest[kind], time.perf_counter() - began)
        hits[victim.kill(random.uniform(0, longest[wanted])) or "between two calls"] += 1
        told = done + len(victim.ended)
        for step in islice(works.steps(seed), done, told):
            works.apply(oracle, *step)
        found = held(folder)
        if found != contents(oracle) and victim.under_way is not None:
            works.apply(oracle, *next(islice(works.steps(seed), told, None)))
            told += 1
        assert found == contents(oracle)
        done = told


@pytest.mark.slow
def test_an_upgrade_killed_again_and_again_ends_as_if_it_had_not_been(runs: Path, photos: Path, tmp_path: Path) -> None:
    folder, first, whole = tmp_path / "gallery", tmp_path / "first", tmp_path / "whole"
    images = images_in(photos / "gallery")
    prunnet.index(first, open_encoder(runs / "a"), images)
    old, query = held(first), prunnet.load(runs / "a").encode(images.image(0))
    shutil.copytree(first, whole)
    began = time.perf_counter()
    works.upgrade(whole, runs / "b")
    lasts = time.perf_counter() - began
    new = held(whole)
    hits, ends, random = 0, 0, Random(0)
    while hits < KILLS or not ends:
        if not folder.exists():
            shutil.copytree(first, folder)
        victim = Victim(works.upgrade, folder, runs / "b")
        assert victim.listen()
        if victim.kill(random.uniform(0, lasts)) is None:
            ended = held(folder)
            assert ended.keys() == new.keys() and swept(folder)
            assert all(
                ended[id][0] == pytest.approx(new[id][0], abs=1e-5) and ended[id][1:] == new[id][1:] for id in new
            )
            ends += 1
            shutil.rmtree(folder)
            continue
        hits += 1
        found = held(folder)
        assert found.keys() == old.keys()
        for id, row in found.items():
            assert row[3] in (old[id][3], new[id][3])
            assert row[0] == pytest.approx((old if row[3] == old[id][3] else new)[id][0], abs=1e-5)
        assert all(len(hits) == 5 for hits in FolderIndex(folder).search(query, 5))
