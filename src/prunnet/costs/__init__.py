"""What subnetworks cost: parameters, bytes, MACs, and the largest that fits a budget."""

from prunnet.costs.budget import Info, capacity_for, cost, cost_table, info, profile_of
from prunnet.costs.profile import Cost, LayerCost, Profile

__all__ = ["Cost", "Info", "LayerCost", "Profile", "capacity_for", "cost", "cost_table", "info", "profile_of"]
