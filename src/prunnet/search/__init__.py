"""Search: galleries on disk, asked by any member of the family that made them.

index = prunnet.VectorIndex.create("gallery/", net)
index.add(net.encode(images), ids, [{"store": "7"}] * len(ids))
for hit in index.search(small.encode(photo), k=10, where={"store": "7"})[0]:
    print(hit.id, hit.score)
"""

from prunnet.search.answers import Answers, Hit, Record
from prunnet.search.index import VectorIndex

__all__ = ["Answers", "Hit", "Record", "VectorIndex"]
