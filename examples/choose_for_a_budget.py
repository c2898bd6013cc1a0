"""From what each device can bear to its subnetwork, and what that costs in retrieval, before anything is shipped."""

from _family import family, run_folder, training_batches

import prunnet

DEVICES = {
    "laptop": {"max_bytes": "400kB"},
    "phone": {"max_bytes": "200kB"},
    "camera": {"max_bytes": "200kB", "max_macs": "250k"},  # the tighter one decides
    "watch": {"max_bytes": "120kB"},
}

run = run_folder(__doc__)
net, data = family(run)

capacities = {device: prunnet.capacity_for(net, **budget) for device, budget in DEVICES.items()}
net.adapt(training_batches(net, data), capacities.values(), align_batches=200)
matrix = prunnet.evaluate(net, data, capacities=sorted({1.0, *capacities.values()}, reverse=True))

dense = matrix.at(1.0, 1.0)
print(f"dense: {prunnet.cost(net, 1.0).bytes:,} bytes, {matrix.metric} {100 * dense:.1f}")
for device, capacity in capacities.items():
    cost, reached = prunnet.cost(net, capacity), matrix.at(capacity, 1.0)
    print(
        f"{device:>7}: {capacity:6.1%} of the connections, {cost.bytes:>7,} bytes, {cost.macs:>9,} MACs, "
        f"{matrix.metric} {100 * reached:.1f} in the dense gallery, {reached / dense:.0%} of dense"
    )
    net.subnetwork(capacity).save(run / "examples" / device)
