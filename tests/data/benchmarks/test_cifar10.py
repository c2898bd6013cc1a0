import pickle

import numpy as np
import pytest

from prunnet.data import load_data
from prunnet.errors import DataError

FILES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def batch(number):
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (4, 3072), dtype=np.uint8), rng.integers(0, 10, 4, dtype=np.uint8)


@pytest.fixture(params=["bin", "py"])
def cifar(request, tmp_path):
    folder = tmp_path / f"cifar-10-batches-{request.param}"
    folder.mkdir()
    for number, name in enumerate(FILES):
        pixels, labels = batch(number)
        if request.param == "bin":
            (folder / f"{name}.bin").write_bytes(np.concatenate([labels[:, None], pixels], axis=1).tobytes())
        else:
            content = {b"data": pixels, b"labels": labels.tolist(), b"batch_label": b"x"}
            text = {key.decode("ascii"): value for key, value in content.items()}
            (folder / name).write_bytes(pickle.dumps(text, protocol=2))
    return tmp_path


@pytest.mark.parametrize("inside", [False, True])
def test_cifar10(cifar, inside):
    data = load_data("cifar10", root=next(cifar.iterdir()) if inside else cifar)
    assert len(data.train) == 20 and len(data.gallery) == 4 and data.query is data.gallery
    assert data.train.label_names[:2] == ["airplane", "automobile"] and data.train.classes == 10
    pixels, labels = batch(1)
    assert data.train.labels[4:8].tolist() == labels.tolist()
    red, green, blue = pixels[2].reshape(3, 32, 32)  # planes of 1,024 bytes, row by row
    np.testing.assert_array_equal(np.asarray(data.train.image(6)), np.stack([red, green, blue], axis=-1))
    assert data.protocol.same_set and data.protocol.metric == "mAP"


def test_cifar10_malformed(cifar):
    folder = next(cifar.iterdir())
    broken = next(folder.glob("data_batch_3*"))
    broken.write_bytes(b"123")
    with pytest.raises(DataError, match=r"data_batch_3"):
        load_data("cifar10", root=cifar)
    broken.unlink()
    with pytest.raises(DataError, match=r"data_batch_3.*: no such file"):
        load_data("cifar10", root=cifar)
    next(folder.glob("test_batch*")).unlink()
    with pytest.raises(DataError, match=r"no test_batch\.bin or test_batch"):
        load_data("cifar10", root=cifar)


def test_cifar10_has_ten_classes(tmp_path):
    for name in FILES:
        (tmp_path / f"{name}.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(DataError, match=r"data_batch_1\.bin: image 1 has label 10"):
        load_data("cifar10", root=tmp_path)
