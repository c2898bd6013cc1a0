"""A gallery in Milvus, which grows past one machine: the same calls, another address.

Start a server, for instance (it listens on port 19530 until it is stopped):
    pip install 'prunnet[milvus]' milvus==2.3.5
    milvus-server --data milvus
"""

import argparse
from pathlib import Path

from _family import family
from pymilvus import MilvusClient

import prunnet

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--run", type=Path, default=Path("demo/run"), help="folder of a finished training run")
parser.add_argument("--store", default="localhost:19530", help="host:port; the collection example is replaced")
arguments = parser.parse_args()
net, data = family(arguments.run)
images = range(min(200, len(data.gallery)))
ids = [data.gallery.ids[i] for i in images]

client = MilvusClient(uri=f"http://{arguments.store}")
for collection in ("example", "example_prunnet"):
    client.drop_collection(collection)

index = prunnet.VectorIndex.create(f"milvus://{arguments.store}/example", net)
index.add(net.encode([data.gallery.image(i) for i in images]), ids, [{"store": str(i % 3)} for i in images])
index.flush()  # the server seals and indexes what it has
query = net.encode(data.query.image(0))
for hit in index.search(query, k=3, where={"store": "1"})[0]:
    print(f"{hit.id}: cosine {hit.score:.3f}, store {hit.metadata['store']}")
print(f"{len(index)} vectors, by member: {index.made_by()}")
