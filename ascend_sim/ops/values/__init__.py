"""Operator families: shape inference and whole-operator values, one module per family.

Importing a module registers its operators; `ascend_sim.ops.load` imports them all. Values work on arrays in
logical layout. Floats narrower than 32 bits are computed in float32 and rounded once, as the vector unit (whose
results are correctly rounded) and the cube (fp32 accumulation) do; integers are exact.
"""
