// Operators that the device does in several steps of its own, where torch would take the CPU's fused kernel.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace npu {
namespace {

// The chip draws a mask of kept elements, then applies it (DropOutGenMask, DropOutDoMask).
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (!train.value_or(true)) {
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  }
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool), at::MemoryFormat::Contiguous);
  mask.bernoulli_(1 - p);
  return {at::native_dropout_backward(input, mask, p == 1 ? 0.0 : 1.0 / (1.0 - p)), mask};
}

}  // namespace
}  // namespace npu

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("native_dropout", &npu::native_dropout); }
