"""A family that was trained finds in the runtime what it finds in torch."""

import pytest
import torch
from tests.training.conftest import GLYPHS, TINY

import prunnet
from prunnet.data import load_data, training_images
from prunnet.evaluation import compatibility_matrix, embed_images

pytestmark = pytest.mark.slow  # a training


def test_trained_glyphs_are_found_alike(tmp_path) -> None:
    data = load_data("glyphs", **GLYPHS)
    prunnet.train(None, data, out=tmp_path / "run", quiet=True, **{**TINY, "epochs": 8})
    family = prunnet.load(tmp_path / "run")
    loader = training_images(data, family.preprocessing)
    for values in ("float16", "int8"):
        file = prunnet.pack(
            family, tmp_path / f"{values}.prun", grid=(0.2, 0.5, 1.0), values=values, loader=loader, runtime=True
        )
        runtime = prunnet.Runtime(file, 0.2)
        for capacity in (0.2, 0.5, 1.0):
            encoders = (prunnet.unpack(file, capacity), runtime.upgrade(capacity))
            query, gallery = (
                [embed_images(encoder, images) for encoder in encoders] for images in (data.query, data.gallery)
            )
            matrix = compatibility_matrix(query, gallery, data)
            torch.testing.assert_close(query[0].vectors, query[1].vectors, rtol=0, atol=1e-4)
            assert matrix.values.max() - matrix.values.min() < 1e-9
