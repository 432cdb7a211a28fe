"""Interpolations against independent implementations: Pillow, and OpenCV where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from ascend_sim.dvpp.resample import METHODS, resize

SIZES = [(48, 64, 96, 128), (97, 61, 48, 200), (120, 160, 30, 40), (33, 40, 33, 640), (240, 320, 224, 224)]


def smooth(rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(rows * 1000 + columns)
    small = rng.integers(0, 256, (max(2, rows // 6), max(2, columns // 6)), np.uint8)
    return np.asarray(Pillow.fromarray(small).resize((columns, rows), Pillow.Resampling.BICUBIC))


def by_hand(plane: np.ndarray, height: int, width: int, half: float) -> np.ndarray:
    """Bilinear interpolation, one pixel at a time."""
    out = np.zeros((height, width))
    for r in range(height):
        y = min(max((r + half) * plane.shape[0] / height - half, 0), plane.shape[0] - 1)
        y0 = int(y)
        y1 = min(y0 + 1, plane.shape[0] - 1)
        for c in range(width):
            x = min(max((c + half) * plane.shape[1] / width - half, 0), plane.shape[1] - 1)
            x0 = int(x)
            x1 = min(x0 + 1, plane.shape[1] - 1)
            top = plane[y0, x0] * (1 - (x - x0)) + plane[y0, x1] * (x - x0)
            bottom = plane[y1, x0] * (1 - (x - x0)) + plane[y1, x1] * (x - x0)
            out[r, c] = top * (1 - (y - y0)) + bottom * (y - y0)
    return out


@pytest.mark.parametrize(("method", "half"), [("bilinear", 0.5), ("bilinear corners", 0.0)])
@given(
    rows=st.integers(2, 14), columns=st.integers(2, 14), height=st.integers(1, 20), width=st.integers(1, 20),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_bilinear_is_what_its_definition_says(
    method: str, half: float, rows: int, columns: int, height: int, width: int, seed: int
) -> None:
    plane = np.random.default_rng(seed).integers(0, 256, (rows, columns), dtype=np.uint8)
    made = resize(plane, height, width, method).astype(int)
    worst = 1.0 if half else 0.51  # OpenCV's weights have 11 bits
    assert np.abs(made - by_hand(plane.astype(float), height, width, half)).max() <= worst


@pytest.mark.parametrize("size", SIZES)
def test_against_opencv(size: tuple[int, int, int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    rows, columns, height, width = size
    plane = smooth(rows, columns)
    linear = cv2.resize(plane, (width, height), interpolation=cv2.INTER_LINEAR).astype(int)
    made = resize(plane, height, width, "bilinear")
    assert np.abs(made - linear).max() <= 1 and (made != linear).mean() < 0.01  # some builds differ when doubling
    nearest = cv2.resize(plane, (width, height), interpolation=cv2.INTER_NEAREST)
    assert np.array_equal(resize(plane, height, width, "nearest"), nearest)


@pytest.mark.parametrize("size", SIZES)
def test_enlarging_against_pillow(size: tuple[int, int, int, int]) -> None:
    """Pillow's bilinear filter is the plain one when a picture is not reduced."""
    rows, columns, _, _ = size
    plane = smooth(rows, columns)
    reference = np.asarray(Pillow.fromarray(plane).resize((2 * columns, 3 * rows), Pillow.Resampling.BILINEAR))
    assert np.abs(resize(plane, 3 * rows, 2 * columns, "bilinear").astype(int) - reference).max() <= 1


@pytest.mark.parametrize("size", SIZES)
def test_high_order_is_within_two_levels_of_a_cubic_filter(size: tuple[int, int, int, int]) -> None:
    rows, columns, height, width = size
    plane = smooth(rows, columns)
    reference = np.asarray(Pillow.fromarray(plane).resize((width, height), Pillow.Resampling.BICUBIC))
    assert np.abs(resize(plane, height, width, "high order").astype(int) - reference).max() <= 2


def test_nearest_takes_the_floor_of_the_scaled_index() -> None:
    plane = np.arange(10, dtype=np.uint8)[None, :]
    assert resize(plane, 1, 4, "nearest").tolist() == [[0, 2, 5, 7]]
    assert resize(plane, 1, 20, "nearest").tolist() == [[i // 2 for i in range(20)]]


@pytest.mark.parametrize("method", sorted(METHODS))
@given(value=st.integers(0, 255), height=st.integers(1, 40), width=st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_flat_pictures_stay_flat(method: str, value: int, height: int, width: int) -> None:
    plane = np.full((9, 13), value, np.uint8)
    assert (resize(plane, height, width, method) == value).all()
