"""Host configuration of the kernel language: see `ascend_sim.asc.runtime.config`."""
