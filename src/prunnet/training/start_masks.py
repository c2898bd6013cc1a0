"""How much of each mask is still its start: whether scores have learnt which connections matter, or only remember."""

from dataclasses import dataclass

from prunnet.network import Family, PrunableNetwork
from prunnet.network.ranking import Masks


@dataclass(frozen=True)
class StartMasks:
    """The masks of the capacities that a family is trained at, as they were before the first step."""

    network: PrunableNetwork
    masks: dict[float, Masks]

    @classmethod
    def of(cls, family: Family) -> "StartMasks | None":
        """Those of `family`, if it has scores that choose."""
        if not isinstance(family, PrunableNetwork) or not family.capacities:
            return None
        return cls(family, dict(zip(family.capacities, family.masks_at(family.capacities), strict=True)))

    def remaining(self) -> dict[str, float]:
        """Of each mask as it is now, the share that was there at the start."""
        shares = {}
        for capacity, now in zip(self.masks, self.network.masks_at(self.masks), strict=True):
            start = self.masks[capacity]
            both = sum(int((mask & start[name]).sum()) for name, mask in now.items())
            shares[f"{capacity:g}"] = both / sum(int(mask.sum()) for mask in now.values())
        return shares
