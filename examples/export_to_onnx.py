"""A 20 % subnetwork for a device that has onnxruntime and neither torch nor prunnet."""

import json

import numpy as np
import onnxruntime
from _family import family, run_folder
from PIL import Image

import prunnet

run = run_folder(__doc__)
net, data = family(run)
small = net.subnetwork(0.2)  # trained at 20 %, so its batch norm is adapted already
file = run / "examples" / "20-percent.onnx"
prunnet.export(small, file)  # computes what torch computes, or there is no file
print(f"{file}: {file.stat().st_size:,} bytes")


# From here on nothing but the file: it says itself how images become input, and to which gallery it belongs.
session = onnxruntime.InferenceSession(file)
about = session.get_modelmeta().custom_metadata_map
how = json.loads(about["preprocessing"])
print(f"family {about['family_id']} at {float(about['capacity']):.0%}, input {how['input_size']}")


def embed(image: Image.Image) -> np.ndarray:
    """One picture, which here has the right size; others are resized and cropped as `how` says."""
    channels, height, width = how["input_size"]
    assert image.size == (width, height) and len(image.getbands()) == channels
    values = np.asarray(image, np.float32).reshape(height, width, channels) / 255
    pixels = ((values - how["mean"]) / how["std"]).transpose(2, 0, 1)[None].astype(np.float32)
    return session.run(["embedding"], {"images": pixels})[0]


image = data.query.image(0)
difference = np.abs(embed(image) - np.asarray(small.encode([image]))).max()
print(f"largest difference from torch: {difference:.1e}")
assert difference < 1e-4
