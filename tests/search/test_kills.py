"""A gallery whose writer is killed is what it was before the call or after it, and the next writer goes on."""

import os
import shutil
import signal
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments_nothing_is_lost_and_nothing_half_there(tmp_path: Path, seed: int) -> None:
    """35 kills for each seed, some way into a call; what is there is the state after the last call that returned, or
    after the one that was under way."""
    folder, random, done = tmp_path / "gallery", Random(seed), 0
    prunnet.VectorIndex.create(folder, some(1))
    oracle = FolderIndex.make(tmp_path / "oracle", "family-a", works.DIMENSION)
    _start()
    for _ in range(35):
        receiver, sender = _PROCESSES.Pipe(duplex=False)
        process = _PROCESSES.Process(target=works.go_on, args=(folder, seed, done, sender))
        process.start()
        sender.close()
        told = done
        for _ in range(random.randint(0, 3)):
            told = receiver.recv()
        process.join(random.uniform(0, 0.08))
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        while receiver.poll():
            try:
                told = receiver.recv()
            except EOFError:
                break
        for step in islice(works.steps(seed), done, told):
            works.apply(oracle, *step)
        found = held(folder)
        if found != contents(oracle):
            works.apply(oracle, *next(islice(works.steps(seed), told, None)))
            told += 1
        assert found == contents(oracle)
        done = told
    assert done > 20


@pytest.mark.slow
def test_an_upgrade_killed_again_and_again_ends_as_if_it_had_not_been(runs: Path, photos: Path, tmp_path: Path) -> None:
    folder, whole = tmp_path / "gallery", tmp_path / "whole"
    images = images_in(photos / "gallery")
    prunnet.index(folder, open_encoder(runs / "a"), images)
    old = held(folder)
    shutil.copytree(folder, whole)
    works.upgrade(whole, runs / "b")
    new = held(whole)
    kills, random = 0, Random(0)
    for _ in range(30):
        if not run(works.upgrade, folder, folder, runs / "b", at=random.randint(5, 30)).killed:
            break
        kills += 1
        found = held(folder)
        assert found.keys() == old.keys()
        for id, row in found.items():
            assert row[3] in (old[id][3], new[id][3])
            assert row[0] == pytest.approx((old if row[3] == old[id][3] else new)[id][0], abs=1e-5)
        index = FolderIndex(folder)
        assert all(len(hits) == 5 for hits in index.search(prunnet.load(runs / "a").encode(images.image(0)), 5))
    works.upgrade(folder, runs / "b")
    ended = held(folder)
    assert kills > 5 and ended.keys() == new.keys() and swept(folder)
    assert all(ended[id][0] == pytest.approx(new[id][0], abs=1e-5) and ended[id][1:] == new[id][1:] for id in new)
