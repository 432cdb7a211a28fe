"""Fit the figures of ``configs/`` that rest on measured networks, and say how well the fit predicts networks that it
has not seen: ``python -m benchmarks.networks --models DIR [--half a | --leave-one-out]``."""
