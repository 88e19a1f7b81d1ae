"""The layers of the workloads, once for each framework; only workers import these."""
