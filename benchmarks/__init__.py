"""Benchmarks of the simulator against measurements; ``python -m benchmarks`` runs them all."""
