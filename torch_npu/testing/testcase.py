"""``TestCase`` with comparisons of tensors; ``run_tests``."""

from __future__ import annotations

import contextlib
import os
import random
import re
import unittest
import warnings
from collections.abc import Iterable, Iterator
from numbers import Number
from typing import Any

import numpy as np
import torch

from torch_npu.testing.common_utils import set_npu_device


def run_tests() -> None:
    unittest.main()


try:  # tests with expected text need it; others do not
    from expecttest import TestCase as _Base
except ImportError:
    from unittest import TestCase as _Base  # type: ignore[assignment]


class TestCase(_Base):
    """``assertEqual`` compares tensors within ``precision`` (absolute), ``assertRtolEqual`` relatively."""

    precision = 1e-5
    exact_dtype = False
    maxDiff = None

    @classmethod
    def setUpClass(cls) -> None:
        cls.npu_device = set_npu_device()

    def setUp(self) -> None:
        seed = int(os.environ.get("SEED", "666"))
        torch.manual_seed(seed)
        random.seed(seed)

    def assertEqual(self, first: Any, second: Any, prec: Any = None, message: str = "", allow_inf: bool = False,
                    exact_dtype: bool | None = None, **_: Any) -> None:  # fmt: skip
        if isinstance(prec, str):
            prec, message = None, prec
        limit = self.precision if prec is None else prec
        exact = self.exact_dtype if exact_dtype is None else exact_dtype
        self._same(first, second, limit, message or None, exact)

    def _same(self, a: Any, b: Any, limit: float, message: Any, exact: bool) -> None:
        a, b = (v.item() if isinstance(v, np.ndarray) and v.ndim == 0 else v for v in (a, b))
        if isinstance(a, np.ndarray) and isinstance(b, torch.Tensor):
            a = torch.as_tensor(a)
        if isinstance(b, np.ndarray) and isinstance(a, torch.Tensor):
            b = torch.as_tensor(b)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            self._same_tensors(a, b, limit, message, exact)
        elif isinstance(a, torch.Tensor) and isinstance(b, Number | np.bool_):
            self._same(a.item(), b, limit, message, exact)
        elif isinstance(b, torch.Tensor) and isinstance(a, Number | np.bool_):
            self._same(a, b.item(), limit, message, exact)
        elif isinstance(a, bool | np.bool_) or isinstance(b, bool | np.bool_):
            super().assertEqual(a, b, message)
        elif isinstance(a, Number) and isinstance(b, Number):
            if a != b and not (np.isnan(a) and np.isnan(b)):  # type: ignore[call-overload]
                self.assertLessEqual(abs(a - b), limit, message)  # type: ignore[operator]
        elif isinstance(a, dict) and isinstance(b, dict):
            super().assertEqual(set(a), set(b), message)
            for key in a:
                self._same(a[key], b[key], limit, message, exact)
        elif (
            isinstance(a, str | bytes | set | torch.Size) or not isinstance(a, Iterable) or not isinstance(b, Iterable)
        ):
            super().assertEqual(a, b, message)
        else:
            first, second = list(a), list(b)
            super().assertEqual(len(first), len(second), message)
            for x, y in zip(first, second, strict=True):
                self._same(x, y, limit, message, exact)

    def _same_tensors(self, a: torch.Tensor, b: torch.Tensor, limit: float, message: Any, exact: bool) -> None:
        super().assertEqual(a.size(), b.size(), message)
        if exact:
            super().assertEqual(a.dtype, b.dtype, message)
        if a.layout != torch.strided:
            a, b = a.to_dense(), b.to_dense()
        x, y = a.detach().cpu().resolve_conj(), b.detach().cpu().resolve_conj()
        if x.dtype.is_complex or y.dtype.is_complex:
            x, y = torch.view_as_real(x.to(torch.complex128)), torch.view_as_real(y.to(torch.complex128))
        if x.dtype == y.dtype and torch.equal(x, y):
            return
        torch.testing.assert_close(
            x.double(),
            y.double(),
            rtol=0,
            atol=limit,
            equal_nan=True,
            msg=message if isinstance(message, str) else None,
        )

    def assertNotEqual(self, first: Any, second: Any, prec: Any = None, message: Any = None) -> None:
        try:
            self.assertEqual(first, second, prec)
        except (AssertionError, TypeError):
            return
        self.fail(message or f"{first!r} == {second!r}")

    def assertNotWarn(self, call_fn: Any, msg: str = "") -> None:
        """``call_fn()`` warns of nothing."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call_fn()
        self.assertEqual(len(seen), 0, msg)

    @contextlib.contextmanager
    def maybeWarnsRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        """The block may warn, but of nothing else than ``regex``."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield
        for warning in seen:
            if not re.search(regex, str(warning.message)):
                self.fail(f"unexpected warning {warning.message}")

    def assertObjectIn(self, obj: Any, iterable: Iterable[Any]) -> None:
        """The very object is among those of ``iterable``."""
        if not any(obj is other for other in iterable):
            self.fail("object not found in iterable")

    def assertTensorsSlowEqual(self, x: Any, y: Any, prec: Any = None, message: str = "") -> None:
        self.assertEqual(x, y, prec, message)

    def assertRtolEqual(self, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3,
                        auto_trans_dtype: bool = False, message: Any = None) -> None:  # fmt: skip
        """Equal when few elements differ by more than ``prec`` (half types: ``prec16``), absolutely or relatively."""
        if isinstance(x, list | tuple) and isinstance(y, list | tuple):
            for a, b in zip(x, y, strict=False):
                self.assertRtolEqual(a, b, prec, prec16, auto_trans_dtype, message)
            return
        halves = (torch.float16, torch.bfloat16, np.float16)
        a, b = (v.detach().cpu() if isinstance(v, torch.Tensor) else torch.as_tensor(v) for v in (x, y))
        if auto_trans_dtype:
            a = a.to(b.dtype)
        if a.shape != b.shape:
            self.fail("shape error")
        if a.dtype != b.dtype:
            self.fail("dtype error")
        if a.dtype == torch.bool:
            self.assertTrue(torch.equal(a, b), message or "result error")
            return
        limit = prec16 if a.dtype in halves else prec
        p, q = a.double(), b.double()
        if not torch.equal(p.isnan(), q.isnan()):
            self.fail(message or "result error")
        p, q = p.nan_to_num(0.0), q.nan_to_num(0.0)
        difference = (p - q).abs()
        relative = difference / (torch.maximum(p.abs(), q.abs()) + 1e-9)
        wrong = ((difference > limit) & (relative > limit)).sum().item()
        if wrong > p.numel() * limit:
            self.fail(message or "result error")
