"""Serve: a gallery and the family that asks it, over HTTP. `prunnet serve` starts it, `prunnet.Client` asks it.

client = prunnet.Client("http://127.0.0.1:8000", capacity=0.1)    # downloads the first bytes of the family
for hit in client.search(photo, k=5)[0]:                          # embeds here, and sends the vector
    print(hit.id, hit.score, hit.label)
"""

from prunnet.serve.client import Client
from prunnet.serve.limits import Limits

__all__ = ["Client", "Limits"]
