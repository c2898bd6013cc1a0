"""Every stored format: family, members and subnetwork folders, `.prun` files, and the one way to open any of them."""

from prunnet.storage.opening import load, save

__all__ = ["load", "save"]
