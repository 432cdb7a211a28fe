"""Host libraries of the kernel language: `ascend_sim.asc.lib.host` (tiling), `ascend_sim.asc.lib.runtime`."""
