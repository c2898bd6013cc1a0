"""A gallery on disk: indexed by the dense network, added to by a camera with 20 %, asked by a phone with 13 %."""

import shutil

from _family import family, run_folder, training_batches

import prunnet

run = run_folder(__doc__)
net, data = family(run)
place = run / "examples" / "gallery"
shutil.rmtree(place, ignore_errors=True)
names = [data.gallery.label_names[label] for label in data.gallery.labels]

# The server indexes what it has; when `add` returns, it is on the disk.
index = prunnet.VectorIndex.create(place, net)
half = len(data.gallery) // 2
server = net.encode([data.gallery.image(i) for i in range(half)])
index.add(server, data.gallery.ids[:half], [{"name": name, "store": "7"} for name in names[:half]])

# A camera adds the rest with a smaller member: one space, so they mix.
batches = training_batches(net, data)
camera = prunnet.prune(net, capacity=0.2, loader=batches)
rest = camera.encode([data.gallery.image(i) for i in range(half, len(data.gallery))])
index.add(rest, data.gallery.ids[half:], [{"name": name, "store": "9"} for name in names[half:]])
index.flush()  # with many vectors: builds the approximate index

# A phone asks, with a size that was never trained.
phone = prunnet.prune(net, capacity=0.13, loader=batches)
gallery = prunnet.VectorIndex.open(place)
asked = range(0, len(data.query), max(1, len(data.query) // 8))
queries = phone.encode([data.query.image(i) for i in asked])
for i, hits in zip(asked, gallery.search(queries, k=5), strict=True):
    name = data.query.label_names[data.query.labels[i]]
    print(" ".join("✓" if hit.metadata["name"] == name else "✗" for hit in hits), name)

first = gallery.search(queries, k=1, where={"store": "9"})[0][0]
print(f"nearest in store 9: {first.id}, cosine {first.score:.2f}, by {100 * first.capacity:g} %")
