"""Whole filters instead of connections: which can be dropped together, and subnetworks physically without them."""

from prunnet.structured.filters import Filters, structure_of
from prunnet.structured.removal import structured_subnetwork
from prunnet.structured.structure import Structure

__all__ = ["Filters", "Structure", "structure_of", "structured_subnetwork"]
