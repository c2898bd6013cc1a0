"""The runtime: a C library that runs a `.prun` file and skips what was pruned, without torch.

small = prunnet.Runtime("family.prun", capacity=0.1)      # a path, an open file, or an address on the web
query = small.encode(images)                              # Embeddings, with the family id
small.upgrade(0.4)                                        # reads the bytes in between, and no others
"""

from prunnet.runtime.running import Runtime

__all__ = ["Runtime"]
