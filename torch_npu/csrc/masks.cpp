// Where a mask is true: results as long as their values make them, so the host waits for the count, as on hardware.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "npu.h"
#include "ops.h"

namespace npu {
namespace {

bool is_mask(const std::optional<at::Tensor>& t) {
  return t.has_value() && t->defined() && (t->scalar_type() == at::kBool || t->scalar_type() == at::kByte);
}

// As torch has it for devices: what indexes is on the CPU or where the indexed tensor is.
void check_places(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  for (const std::optional<at::Tensor>& index : indices) {
    TORCH_CHECK(!index.has_value() || !index->defined() || index->is_cpu() || index->device() == self.device(),
                "indices should be either on cpu or on the same device as the indexed tensor (", self.device(), ")");
  }
}

at::Tensor positions(const at::Tensor& self) {
  if (self.dim() == 0) {
    return at::empty({self.item().toBool() ? 1 : 0, 0}, self.options().dtype(at::kLong));
  }
  if (self.numel() == 0) {
    return at::empty({0, self.dim()}, self.options().dtype(at::kLong));
  }
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("npu::_nonzero", "")
                       .typed<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&)>();
  auto [places, count] = op.call(self.is_complex() ? at::ne(self, 0) : self);
  int64_t found = count.item<int64_t>();
  if (!backend().values()) {  // nobody knows: as many as there may be
    found = self.numel();
  }
  return places.narrow(0, 0, found).clone();
}

at::Tensor& positions_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "Expected out tensor to have dtype ", at::kLong, " but got ",
              out.scalar_type());
  at::Tensor found = positions(self);
  out.resize_(found.sizes());
  return out.copy_(found);
}

// Masks among the indices become the positions of their true elements, one index per axis of the mask.
c10::List<std::optional<at::Tensor>> without_masks(const at::Tensor& self,
                                                   const c10::List<std::optional<at::Tensor>>& indices) {
  c10::List<std::optional<at::Tensor>> made;
  for (const std::optional<at::Tensor>& index : indices) {
    if (!is_mask(index)) {
      made.push_back(index.has_value() && index->defined() ? index : std::nullopt);
      continue;
    }
    if (index->scalar_type() == at::kByte) {
      TORCH_WARN("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
    }
    for (int64_t axis = 0; axis < index->dim(); ++axis) {
      int64_t at_ = static_cast<int64_t>(made.size()) + axis;
      TORCH_CHECK_INDEX(at_ < self.dim() && index->size(axis) == self.size(at_), "The shape of the mask ",
                        index->sizes(), " at index ", axis, " does not match the shape of the indexed tensor ",
                        self.sizes(), " at index ", at_);
    }
    at::Tensor places = positions(index->to(self.device()));
    for (int64_t axis = 0; axis < index->dim(); ++axis) {
      made.push_back(places.select(1, axis).contiguous());
    }
  }
  return made;
}

// Whether there are masks; a mask of no dimension adds one, which is left to the CPU.
bool any_mask(const c10::List<std::optional<at::Tensor>>& indices) {
  bool found = false;
  for (const std::optional<at::Tensor>& index : indices) {
    if (is_mask(index)) {
      if (index->dim() == 0) {
        return false;
      }
      found = true;
    }
  }
  return found;
}

void index(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  size_t begin = stack->size() - op.schema().arguments().size();
  auto indices = (*stack)[begin + 1].to<c10::List<std::optional<at::Tensor>>>();
  check_places((*stack)[begin].toTensor(), indices);
  if (any_mask(indices)) {
    (*stack)[begin + 1] = without_masks((*stack)[begin].toTensor(), indices);
  }
  dispatch(op, stack);
}

void index_put(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  size_t begin = stack->size() - op.schema().arguments().size();
  at::Tensor self = (*stack)[begin].toTensor();
  auto indices = (*stack)[begin + 1].to<c10::List<std::optional<at::Tensor>>>();
  at::Tensor values = (*stack)[begin + 2].toTensor();
  check_places(self, indices);
  if (values.is_cpu() && values.dim() == 0) {  // a number
    values = values.to(self.device());
    (*stack)[begin + 2] = values;
  }
  TORCH_CHECK(values.device() == self.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              values.device(), "!");
  if (any_mask(indices)) {
    std::optional<at::Tensor> only = indices.size() == 1 ? indices.get(0) : std::nullopt;
    if (values.numel() == 1 && !(*stack)[begin + 3].toBool() && is_mask(only) && only->scalar_type() == at::kBool &&
        only->dim() <= self.dim() && only->sizes() == self.sizes().slice(0, only->dim())) {
      at::Tensor mask = *only;  // the same value everywhere: nobody needs the positions
      while (mask.dim() < self.dim()) {
        mask = mask.unsqueeze(-1);
      }
      self.masked_fill_(mask.to(self.device()), values.to(self.device()).reshape({}));
      torch::jit::drop(*stack, op.schema().arguments().size());
      torch::jit::push(*stack, std::move(self));
      return;
    }
    (*stack)[begin + 1] = without_masks(self, indices);
  }
  dispatch(op, stack);
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  auto both = at::broadcast_tensors({mask.dim() ? mask : mask.unsqueeze(0), self});
  c10::List<std::optional<at::Tensor>> indices;
  indices.push_back(both[0].contiguous());
  return at::index(both[1], indices);
}

}  // namespace
}  // namespace npu

TORCH_LIBRARY_FRAGMENT(npu, m) { m.def("_nonzero(Tensor self) -> (Tensor, Tensor)"); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", &npu::positions);
  m.impl("nonzero.out", &npu::positions_out);
  m.impl("masked_select", &npu::masked_select);
  for (const char* name : {"index.Tensor", "_unsafe_index.Tensor"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&npu::index>());
  }
  m.impl("_index_put_impl_", torch::CppFunction::makeFromBoxedFunction<&npu::index_put>());
}
