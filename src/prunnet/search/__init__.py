"""Search: galleries in folders and stores, asked by any member of the family that made them.

index = prunnet.VectorIndex.create("gallery/", net)
index.add(net.encode(images), ids, [{"store": "7"}] * len(ids))
for hit in index.search(small.encode(photo), k=10, where={"store": "7"})[0]:
    print(hit.id, hit.score)

prunnet.index("gallery/", net.subnetwork(1.0), images)    # embed and add, and go on after a kill
"""

from prunnet.search.answers import Answers, Hit, Record
from prunnet.search.encoders import open_encoder
from prunnet.search.folder import FolderIndex
from prunnet.search.indexing import Engine, Indexed, index
from prunnet.search.measuring import mean_average_precision
from prunnet.search.protocol import VectorIndex
from prunnet.search.ray_engine import RayEngine
from prunnet.search.sources import images_in, label_of
from prunnet.search.upgrading import Upgraded, upgrade, verdict

__all__ = [
    "Answers",
    "Engine",
    "FolderIndex",
    "Hit",
    "Indexed",
    "RayEngine",
    "Record",
    "Upgraded",
    "VectorIndex",
    "images_in",
    "index",
    "label_of",
    "mean_average_precision",
    "open_encoder",
    "upgrade",
    "verdict",
]
