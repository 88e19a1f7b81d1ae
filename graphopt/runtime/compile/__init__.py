"""Programs on their way to executables: passes, lowering, kernels that were tried."""
