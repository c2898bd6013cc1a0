"""A server indexes the gallery with the dense network, a phone asks with 13 % of it. In between there is only numpy."""

import sys

import numpy as np
from _family import family, run_folder, training_batches

import prunnet

run = run_folder(__doc__)
net, data = family(run)
index = run / "examples" / "gallery.npz"

# The server, once. Any vector database will do in place of the file; keep the family beside the vectors.
gallery = net.encode([data.gallery.image(i) for i in range(len(data.gallery))])
names = [data.gallery.label_names[label] for label in data.gallery.labels]
np.savez(index, vectors=np.asarray(gallery), family=gallery.family_id, names=names)

# The phone: a size that was never trained, with batch-norm statistics of its own.
phone = prunnet.prune(net, capacity=0.13, loader=training_batches(net, data))

stored = np.load(index)
if stored["family"] != phone.family_id:
    sys.exit(f"{index} was indexed by family {stored['family']}, the phone has {phone.family_id}")
asked = np.linspace(0, len(data.query) - 1, 8).astype(int)
queries = np.asarray(phone.encode([data.query.image(int(i)) for i in asked]))
similarity = queries @ stored["vectors"].T  # both are L2-normalised, so this is the cosine
top5 = np.argsort(-similarity, axis=1)[:, :5]

for i, nearest in zip(asked, top5, strict=True):
    name = data.query.label_names[data.query.labels[i]]
    marks = " ".join("✓" if stored["names"][j] == name else "✗" for j in nearest)
    print(f"{marks}  {name}")
