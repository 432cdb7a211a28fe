"""Micro-kernels: single instructions and data paths of one core, as the public on-board tables measured them."""
