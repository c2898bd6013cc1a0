"""The progressive file, `.prun`: a family in which every capacity is a prefix. Specified in docs/prun-format.md."""

from prunnet.deploy.pack.contents import Band, Contents, read_contents
from prunnet.deploy.pack.header import DEFAULT_GRID
from prunnet.deploy.pack.reading import prefix_bytes, unpack
from prunnet.deploy.pack.writing import pack

__all__ = ["DEFAULT_GRID", "Band", "Contents", "pack", "prefix_bytes", "read_contents", "unpack"]
