import collections
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunnet.data.benchmarks.plain_pickle import read_plain_pickle
from prunnet.errors import DataError

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(value=plain, protocol=st.integers(0, 5))
def test_plain_values_come_back(tmp_path_factory, value, protocol):
    file = tmp_path_factory.mktemp("pickle") / "value.pkl"
    file.write_bytes(pickle.dumps(value, protocol))
    assert read_plain_pickle(file) == value


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">i4", "f4", "U3"])
@pytest.mark.parametrize("order", "CF")
def test_arrays_come_back(tmp_path, protocol, dtype, order):
    array = np.asarray(np.arange(6).reshape(2, 3).astype(dtype), order=order)
    file = tmp_path / "array.pkl"
    file.write_bytes(pickle.dumps({"a": array, "b": [array[0, 1]] if dtype != "U3" else []}, protocol))
    content = read_plain_pickle(file)
    np.testing.assert_array_equal(content["a"], array)
    assert content["b"] == ([1] if dtype != "U3" else [])


class Harmful:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: Harmful(str(folder / "ran")),
        lambda folder: [1, {"gnd": Harmful(str(folder / "ran"))}],
        lambda folder: collections.OrderedDict(a=Harmful(str(folder / "ran"))),
        lambda folder: np.array([Harmful(str(folder / "ran"))], dtype=object),
    ],
)
def test_nothing_in_the_file_is_run(tmp_path, make):
    file = tmp_path / "bad.pkl"
    file.write_bytes(pickle.dumps(make(tmp_path)))
    with pytest.raises(DataError, match=r"bad\.pkl: not a pickle of plain data"):
        read_plain_pickle(file)
    assert not (tmp_path / "ran").exists()


@given(noise=st.binary(max_size=200))
def test_noise_is_refused_or_plain(tmp_path_factory, noise):
    file = tmp_path_factory.mktemp("pickle") / "noise.pkl"
    file.write_bytes(noise)
    try:
        value = read_plain_pickle(file)
    except DataError as error:
        assert "noise.pkl" in str(error)
    else:
        assert value is None or isinstance(value, bool | int | float | str | bytes | list | tuple | dict | np.ndarray)


def test_arrays_of_python_2_come_back(tmp_path):
    """Byte strings as CIFAR-10 and the revisited ground truth have them, in opcodes no Python 3 writes."""
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    state = b"(K\x01K\x02K\x03\x86" + kind + b"\x89U\x06\x00\x01\x80\xff\n\rtb"
    file = tmp_path / "data_batch_1"
    file.write_bytes(b"\x80\x02}U\x04data" + empty + state + b"s.")
    np.testing.assert_array_equal(read_plain_pickle(file)["data"], np.array([[0, 1, 128], [255, 10, 13]], np.uint8))
