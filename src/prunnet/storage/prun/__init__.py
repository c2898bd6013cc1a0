"""The progressive file, `.prun`: a family in which every capacity is a prefix. Specified in docs/prun-format.md."""

from prunnet.storage.prun.contents import Band, Contents, read_contents
from prunnet.storage.prun.header import DEFAULT_GRID
from prunnet.storage.prun.reading import prefix_bytes, unpack
from prunnet.storage.prun.writing import pack

__all__ = ["DEFAULT_GRID", "Band", "Contents", "pack", "prefix_bytes", "read_contents", "unpack"]
