"""What the workloads are made of, once for each framework; only workers import these."""
