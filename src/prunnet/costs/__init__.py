"""What subnetworks cost: parameters, bytes, MACs, and the largest that fits a budget."""

from prunnet.costs.budget import capacity_for, cost, cost_table, profile_of
from prunnet.costs.describing import Info, info
from prunnet.costs.profile import Cost, LayerCost, Profile

__all__ = ["Cost", "Info", "LayerCost", "Profile", "capacity_for", "cost", "cost_table", "info", "profile_of"]
