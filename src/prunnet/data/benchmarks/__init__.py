"""The benchmarks of the field, read in the layouts they are published in."""
