"""The model card that `prunnet.save` writes beside the weights."""

from collections.abc import Mapping
from typing import Any

from prunnet.costs.budget import cost_table
from prunnet.costs.quantities import format_quantity
from prunnet.network.capacity import format_capacity
from prunnet.network.prunable import PrunableNetwork

_USUAL = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)


def model_card(net: PrunableNetwork, config: Mapping[str, Any]) -> str:
    """Markdown: what this family is, what each capacity costs, how to use it."""
    backbone = (config["backbone"] or {}).get("name") or config["backbone_class"]
    trained = ", ".join(format_capacity(capacity) for capacity in net.capacities) or "none recorded"
    capacities = net.available((*_USUAL, *net.capacities))
    rows = "\n".join(
        f"| {format_capacity(row.capacity)} | {row.parameters:,} | {format_quantity(row.bytes, 'B')} "
        f"| {format_quantity(row.macs, 'MACs')} |"
        for row in cost_table(net, capacities)
    )
    subnetworks = "subnetworks" if net.selection.name == "connections" else f"subnetworks of whole {net.selection.name}"
    return f"""# PrunNet family {net.family_id}

One {backbone} whose {subnetworks}, at any capacity, embed images into one {config["embedding_dim"]}-dimensional space.
Input: {" × ".join(map(str, net.preprocessing.input_size))}. Capacities trained: {trained}.

| capacity | parameters | bytes (fp16) | MACs |
|---:|---:|---:|---:|
{rows}

```python
import prunnet

net = prunnet.load("this folder")
gallery = net.subnetwork(1.0).encode(gallery_images)
queries = net.subnetwork(0.2).encode(query_images)
similarity = queries.similarity(gallery)
```
"""
