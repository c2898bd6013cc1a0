"""The model card beside the weights: what a family is, what it reached, what each capacity costs, how to use it."""

from pathlib import Path

from prunnet._files import write_text
from prunnet.costs import cost_table
from prunnet.costs.quantities import format_quantity
from prunnet.network import Family, PrunableNetwork
from prunnet.network.capacity import format_capacity

NAME = "README.md"


def write_card(family: Family, folder: Path, measured: str = "") -> None:
    """Write the card of `family` into `folder`; `measured` is its compatibility matrix in Markdown, if there is one."""
    write_text(folder / NAME, model_card(family, measured))


def model_card(family: Family, measured: str = "") -> str:
    """The card, in Markdown."""
    trained = ", ".join(map(format_capacity, family.capacities)) or "none below 100 %"
    rows = "\n".join(
        f"| {format_capacity(row.capacity)} | {row.parameters:,} | {format_quantity(row.bytes, 'B')} "
        f"| {format_quantity(row.macs, 'MACs')} |"
        for row in cost_table(family, family.usual_capacities)
    )
    reached = f"\n## Measured\n\n{measured.strip()}\n" if measured else ""
    smallest = min(family.usual_capacities)
    return f"""# PrunNet family {family.family_id}

{_what(family)} that embed images into one {family.embedding_dim}-dimensional space.
Input: {" × ".join(map(str, family.preprocessing.input_size))}. Capacities trained: {trained}.
{reached}
## Costs

| capacity | parameters | bytes (fp16) | MACs |
|---:|---:|---:|---:|
{rows}

## Use

```python
import prunnet

net = prunnet.load("this folder")
gallery = net.encode(gallery_images)
queries = net.encode(query_images, capacity={smallest:g})
similarity = queries.similarity(gallery)
```
"""


def _what(family: Family) -> str:
    if not isinstance(family, PrunableNetwork):
        return "Networks, one per capacity,"
    name = type(family.backbone).__name__
    whole = "" if family.selection.name == "connections" else f" of whole {family.selection.name}"
    return f"One {name} and its subnetworks{whole} at any capacity,"
