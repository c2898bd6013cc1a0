import numpy as np
import pytest

from prunnet.data import DATASETS, load_data
from prunnet.errors import DataError


def test_every_benchmark_of_the_field_is_there():
    assert set(DATASETS) == {
        *("glyphs", "omniglot", "gldv2", "roxford5k", "rparis6k", "inshop", "veri776", "market1501", "msmt17"),
        *("cub200", "cars196", "sop", "cifar10"),
    }
    for entry in DATASETS.values():
        assert entry.files and entry.split and (entry.source == "built in" or entry.source.startswith("https://"))


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"glyphs"}))
def test_a_benchmark_without_its_files_says_what_it_needs(name, tmp_path):
    with pytest.raises(DataError, match=f"{name} needs root"):
        load_data(name)
    with pytest.raises(DataError, match=f"no such folder; {name} needs"):
        load_data(name, root=tmp_path / "missing")
    with pytest.raises(DataError, match=str(tmp_path)):
        load_data(name, root=tmp_path)


def test_what_is_nothing_is_named():
    with pytest.raises(DataError, match="imagenet: neither a data set"):
        load_data("imagenet")


def test_loaded_data_passes_through():
    data = load_data("glyphs", classes=6, images_per_class=4)
    assert load_data(data) is data


def test_a_folder_may_bear_the_name_of_a_benchmark(tmp_path, draw, monkeypatch):
    for label in "abcde":
        for number in range(2):
            draw(tmp_path / "sop" / label / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    assert load_data("sop").train.classes == 3


def test_cache_decodes_once(tmp_path, draw):
    paths = [draw(tmp_path / part / "a" / f"{number}.png") for part in ("query", "gallery") for number in range(2)]
    plain = load_data(tmp_path)
    before = np.asarray(plain.gallery.image(1))
    cached = load_data(tmp_path, cache=True)
    for path in paths:
        path.unlink()
    np.testing.assert_array_equal(np.asarray(cached.gallery.image(1)), before)


def test_unknown_options_are_refused(tmp_path):
    with pytest.raises(DataError, match="market1501 has no option 'crop'; its options are none"):
        load_data("market1501", root=tmp_path, crop=True)
    with pytest.raises(DataError, match="its options are split, crop"):
        load_data("cub200", root=tmp_path, splits="standard")
