import numpy as np
import pytest
import torch
from PIL import Image
from tests.network.test_batchnorm import loader_for
from tests.networks import images_for

import prunnet
from prunnet.errors import FamilyError, ImageError


@pytest.fixture
def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture
def subnetwork(small_net) -> prunnet.Subnetwork:
    subnetwork = small_net.subnetwork(0.5)
    prunnet.adapt_batchnorm(subnetwork, loader_for(small_net))
    return subnetwork


def test_pictures_arrays_and_tensors_encode_alike(subnetwork, picture) -> None:
    array = np.asarray(picture)
    expected = subnetwork.encode(picture)
    assert expected.vectors.shape == (1, 16)
    torch.testing.assert_close(expected.vectors.norm(dim=1), torch.ones(1))
    preprocessed = subnetwork.preprocessing.batch(picture)
    for images in (
        [picture],
        array,
        array[None],
        [array],
        array.astype(np.float32) / 255,
        torch.from_numpy(array.copy()).permute(2, 0, 1),
        [torch.from_numpy(array.copy()).permute(2, 0, 1)],
        preprocessed,
        preprocessed[0],
        [preprocessed[0]],
    ):
        torch.testing.assert_close(subnetwork.encode(images).vectors, expected.vectors)


def test_encoding_in_batches_changes_nothing(subnetwork, small_net) -> None:
    images = images_for(small_net, 7)
    whole, parts = subnetwork.encode(images), subnetwork.encode(images, batch_size=3)
    torch.testing.assert_close(whole.vectors, parts.vectors, atol=1e-4, rtol=0)
    assert len(parts) == 7 and np.asarray(parts).shape == (7, 16)


def test_encode_restores_the_training_mode(subnetwork, picture) -> None:
    subnetwork.train()
    subnetwork.encode(picture)
    assert all(module.training for module in subnetwork.modules())


def test_embeddings_know_their_family_and_refuse_another(subnetwork, small_net, picture) -> None:
    mine = subnetwork.encode(picture)
    assert (mine.family_id, mine.capacity) == (small_net.family_id, 0.5)
    assert mine.similarity(mine).item() == pytest.approx(1)
    foreign = prunnet.Embeddings(mine.vectors, "other", 1.0)
    with pytest.raises(FamilyError, match=rf"{small_net.family_id}.*other"):
        mine.similarity(foreign)


def test_preprocessing_is_the_backbones_own() -> None:
    preprocessing = prunnet.convert(prunnet.create_backbone("mobilenetv2_100")).preprocessing
    assert preprocessing == prunnet.Preprocessing(
        (3, 224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bicubic", 0.875
    )


def test_gray_backbones_take_gray_pictures(picture) -> None:
    backbone = prunnet.create_backbone("resnet18", in_chans=1, channels=(4, 4, 4, 4), layers=(1, 1, 1, 1))
    preprocessing = prunnet.convert(backbone).preprocessing
    assert preprocessing.input_size[0] == len(preprocessing.mean) == 1
    assert preprocessing.batch(picture).shape == (1, *preprocessing.input_size)


def test_resize_crop_and_normalise_by_hand() -> None:
    half = np.zeros((8, 16), dtype=np.uint8)
    half[:, 8:] = 255
    batch = prunnet.Preprocessing((1, 8, 8), (0.5,), (0.5,)).batch(half)
    assert batch.shape == (1, 1, 8, 8)
    assert torch.equal(batch[0, 0, 0], torch.tensor([-1.0] * 4 + [1.0] * 4))


def test_crop_pct_cuts_the_border() -> None:
    image = Image.new("L", (16, 16), 255)
    image.paste(0, (2, 2, 14, 14))
    assert prunnet.Preprocessing((1, 8, 8), (0.0,), (1.0,), crop_pct=0.5).transform()(image).max() == 0


def test_networks_of_other_channels_take_preprocessed_tensors() -> None:
    preprocessing = prunnet.Preprocessing((2, 4, 4))
    tensors = torch.zeros(2, 4, 4)
    assert preprocessing.batch([tensors, tensors]).shape == (2, 2, 4, 4)
    with pytest.raises(ImageError, match="1 or 3 channels, the network expects 2; give preprocessed float tensors"):
        preprocessing.batch(Image.new("L", (4, 4)))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "no images were given"),
        (["cat.jpg"], "found str"),
        (np.zeros((4, 4), dtype=np.int64), "must be uint8, or float in"),
        (np.full((4, 4, 3), 2.0), r"values in \[0, 1\]"),
        ([np.zeros((4, 4, 2), dtype=np.uint8)], "1, 3 or 4 channels"),
        (torch.zeros(3, 4, 4, dtype=torch.int64), "must be uint8"),
        (torch.zeros(2, 1, 32, 32), r"\[N, 3, H, W\]"),
    ],
)
def test_what_is_no_image_is_refused(subnetwork, images, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        subnetwork.encode(images)


def test_an_inconsistent_description_is_refused() -> None:
    with pytest.raises(ImageError, match="input_size must be"):
        prunnet.Preprocessing((3, 0, 4))
    with pytest.raises(ImageError, match="mean has 1 values for 3 channels"):
        prunnet.Preprocessing((3, 4, 4), mean=(0.5,))
