"""Stand-alone Aipp and gathers of long rows, instruction by instruction, against the operators' values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ascend_sim.kernels._execute import run_plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.graph import aipp
from ascend_sim.ops.registry import NoKernel, find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

PIXEL = {"RGB888_U8": 3, "XRGB8888_U8": 4, "YUV400_U8": 1}
aipp.declare()
ops.load()


def aipp_call(images: TensorSpec, result: TensorSpec, config: aipp.AippConfig) -> OpCall:
    attrs = {k: v for k, v in vars(config).items() if k != "extra"}
    return OpCall("Aipp", (images,), (result,), freeze_attrs({"aipp": attrs, "dst_type": result.dtype}))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(("Ascend310", "Ascend310P3", "Ascend310B1")), st.sampled_from(sorted(PIXEL)), st.integers(1, 3),
    st.integers(8, 50), st.integers(18, 50), st.booleans(), st.booleans(), st.sampled_from(("float16", "float32")),
    st.integers(0, 99),
)  # fmt: skip
def test_images(
    chip: str, fmt: str, n: int, h: int, w: int, crop: bool, swap: bool, dtype: str, seed: int
) -> None:
    rows, columns = (h - 3, w - 2) if crop else (h, w)
    config = aipp.AippConfig(
        input_format=fmt, src_image_size_h=h, src_image_size_w=w, crop=crop, load_start_pos_h=1 if crop else 0,
        load_start_pos_w=2 if crop else 0, crop_size_h=rows, crop_size_w=columns, mean=(1, 2, 3, 0),
        min_chn=(10.5, 3, 0, 0), var_reci=(0.017, 0.5, 1.0, 1.0), rbuv_swap_switch=swap,
    )  # fmt: skip
    images = TensorSpec(config.source_shape(n), "uint8", "NHWC")
    result = TensorSpec((n, 3 if PIXEL[fmt] > 1 else 1, rows, columns), dtype, "NCHW")
    call = aipp_call(images, result, config)
    x = np.random.default_rng(seed).integers(0, 256, images.shape).astype(np.uint8)
    plan = find_kernel("Aipp")
    assert plan is not None
    launches = plan(call, load_soc(chip))
    (raw,) = run_plan(call, launches, [x])
    (want,) = ops.values(call, [x])
    got = raw.view(dtype).reshape(result.shape)
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2e-3, atol=2e-3)
    for launch in launches:
        launch.trace()


def test_chips_that_do_not_preprocess() -> None:
    config = aipp.AippConfig(input_format="RGB888_U8", src_image_size_h=32, src_image_size_w=32)
    call = aipp_call(
        TensorSpec((1, 32, 32, 3), "uint8", "NHWC"), TensorSpec((1, 3, 32, 32), "float16", "NCHW"), config
    )
    plan = find_kernel("Aipp")
    assert plan is not None
    for chip in ("Ascend910A", "Ascend910B2"):
        with pytest.raises(NoKernel, match="preprocess"):
            plan(call, load_soc(chip))


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2"])
@pytest.mark.parametrize(
    ("shape", "axis", "indices"),
    [((3, 3, 300, 300), 1, (1,)), ((2, 5, 70001), 1, (4, 0)), ((7, 200000), 0, (3,)), ((3, 150001), 0, (2, 2, 1))],
)
def test_gather_of_long_rows(
    run_op: Any, close: Any, chip: str, shape: tuple[int, ...], axis: int, indices: tuple[int, ...]
) -> None:
    """A row that does not fit the unified buffer goes in pieces."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    close(*run_op("GatherV2", [x, np.asarray(indices), np.asarray([axis])], chip, const=(1, 2)))
