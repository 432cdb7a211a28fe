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

// One sample, or several without return: the greatest of p / q with q exponential ("exponential races"); several with
// return: where uniform numbers fall into the running sum.
at::Tensor multinomial(const at::Tensor& self, int64_t samples, bool replacement,
                       std::optional<at::Generator> generator) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= (int64_t(1) << 24), "number of categories cannot exceed 2^24");
  if (self.numel() == 0) {
    auto shape = self.sizes().vec();
    shape.back() = samples;
    return at::empty(shape, self.options().dtype(at::kLong));
  }
  if (!replacement || samples == 1) {
    at::Tensor race = at::empty_like(self).exponential_(1, std::move(generator));
    at::div_out(race, self, race);
    return samples == 1 ? at::argmax(race, -1, true) : std::get<1>(at::topk(race, samples, -1, true, true));
  }
  at::Tensor sums = at::cumsum(self, -1);
  sums = at::div(sums, sums.narrow(-1, self.size(-1) - 1, 1)).to(at::kDouble);
  auto shape = self.sizes().vec();
  shape.back() = samples;
  at::Tensor drawn = at::empty(shape, sums.options()).uniform_(0, 1, std::move(generator));
  return at::clamp_max(at::searchsorted(sums.contiguous(), drawn), self.size(-1) - 1);
}

}  // namespace
}  // namespace npu

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", &npu::native_dropout);
  m.impl("multinomial", &npu::multinomial);
}
