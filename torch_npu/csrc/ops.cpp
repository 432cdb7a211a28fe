// Operators of device "npu".
//
// Every operator that has no kernel of its own here arrives in `dispatch`: its arguments (shapes, strides, types and
// scalars, never addresses) are the key of a plan that Python makes once: the Ascend operators to launch, the tensors
// to allocate and what to return. Operators without a plan run as CPU kernels on the same bytes.

#include "ops.h"

#include "npu.h"
#include "random.h"
#include "untraced.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_copy_from.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>

namespace py = pybind11;

namespace npu {
namespace {

constexpr auto kNpu = c10::DeviceType::PrivateUse1;
using c10::IValue;
using torch::jit::Stack;

bool on_npu(const at::Tensor& t) { return t.defined() && t.device().type() == kNpu; }

uintptr_t address_of(const at::Tensor& t) {
  return t.numel() == 0 ? 0 : reinterpret_cast<uintptr_t>(t.const_data_ptr());
}

// -- plans

struct NewTensor {
  std::vector<int64_t> sizes, strides;
  c10::ScalarType type;
};

// What a plan returns in one place: argument tensor ``index`` (kind 0), new tensor (1), nothing (2), a list (3) or
// the number ``index`` (4).
struct Return {
  int kind;
  int index;
  std::vector<int> list;
};

struct Plan {
  PyObject* launcher = nullptr;  // owned; nullptr: nothing to launch
  std::vector<NewTensor> made;
  std::vector<int64_t> scratch;  // bytes
  std::vector<Return> returns;
  std::vector<std::pair<int, std::vector<int64_t>>> resizes;  // tensor slot, sizes
  bool drawn = false;  // random values: a CPU kernel draws them now, the plan only takes its time
};

struct Operator {
  std::string name, overload;
  bool hopeless = false;  // no plan for any arguments
  int returns = 0;
  std::unordered_map<std::string, Plan*> plans;
  int64_t planned = 0, fallbacks = 0;
};

std::unordered_map<c10::OperatorHandle, Operator*> operators;
PyObject *py_compile = nullptr, *py_launch = nullptr, *py_before = nullptr, *py_after = nullptr, *py_settle = nullptr,
         *py_redraw = nullptr;

template <typename... A>
py::object ask(PyObject* function, const A&... args) {
  Untraced untraced;
  return py::reinterpret_borrow<py::object>(function)(args...);
}

Operator& operator_of(const c10::OperatorHandle& op) {
  auto it = operators.find(op);
  if (it != operators.end()) {
    return *it->second;
  }
  auto* made = new Operator;
  made->name = op.operator_name().name;
  made->overload = op.operator_name().overload_name;
  made->returns = static_cast<int>(op.schema().returns().size());
  operators.emplace(op, made);
  return *made;
}

template <typename T>
void put(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

struct Arguments {
  std::string key;
  c10::SmallVector<at::Tensor, 8> tensors;  // npu tensors in order
  int device = -1;
  bool usable = true;   // a plan may be looked for
  bool mixed = false;   // tensors of several devices
};

void describe(Arguments& a, const at::Tensor& t) {
  if (!t.defined()) {
    a.key.push_back('U');
    return;
  }
  if (t.device().type() == kNpu) {
    if (t.layout() != c10::kStrided) {
      a.usable = false;
      return;
    }
    a.key.push_back('T');
    put(a.key, static_cast<int8_t>(t.scalar_type()));
    put(a.key, static_cast<uint8_t>(t.dim() | (t.is_conj() ? 0x80 : 0) | (t.is_neg() ? 0x40 : 0)));
    for (auto v : t.sizes()) put(a.key, v);
    for (auto v : t.strides()) put(a.key, v);
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) {
      a.key.push_back('w');
    }
    int index = t.device().index();
    if (a.device == -1) {
      a.device = index;
    } else if (a.device != index) {
      a.mixed = true;
    }
    a.tensors.push_back(t);
    return;
  }
  if (t.device().type() == c10::kCPU && t.dim() == 0 && t.layout() == c10::kStrided) {
    a.key.push_back(t.unsafeGetTensorImpl()->is_wrapped_number() ? 'W' : 'C');
    put(a.key, static_cast<int8_t>(t.scalar_type()));
    a.key.append(static_cast<const char*>(t.const_data_ptr()), t.element_size());
    a.key.push_back(t.is_conj() || t.is_neg() ? '-' : '+');
    return;
  }
  a.usable = false;
}

void describe(Arguments& a, const IValue& v) {
  if (v.isTensor()) {
    describe(a, v.toTensor());
  } else if (v.isNone()) {
    a.key.push_back('N');
  } else if (v.isDouble()) {
    a.key.push_back('d');
    put(a.key, v.toDouble());
  } else if (v.isInt()) {
    a.key.push_back('i');
    put(a.key, v.toInt());
  } else if (v.isBool()) {
    a.key.push_back(v.toBool() ? '1' : '0');
  } else if (v.isIntList()) {
    auto list = v.toIntVector();
    a.key.push_back('I');
    put(a.key, static_cast<int32_t>(list.size()));
    for (auto x : list) put(a.key, x);
  } else if (v.isTensorList()) {
    a.key.push_back('L');
    auto list = v.toTensorVector();
    put(a.key, static_cast<int32_t>(list.size()));
    for (const auto& t : list) describe(a, t);
  } else if (v.isList()) {
    a.key.push_back('l');
    auto list = v.toListRef();
    put(a.key, static_cast<int32_t>(list.size()));
    for (const auto& x : list) describe(a, x);
  } else if (v.isString()) {
    a.key.push_back('s');
    a.key += v.toStringRef();
    a.key.push_back('\0');
  } else if (v.isComplexDouble()) {
    a.key.push_back('c');
    put(a.key, v.toComplexDouble());
  } else if (v.isDevice()) {
    a.key.push_back('D');
    if (a.device == -1 && v.toDevice().type() == kNpu) {
      a.device = v.toDevice().has_index() ? v.toDevice().index() : current_device();
    }
  } else if (v.isGenerator()) {
    a.key.push_back('G');
  } else if (v.isSymInt()) {
    a.key.push_back('i');
    put(a.key, v.toSymInt().guard_int(__FILE__, __LINE__));
  } else {
    a.usable = false;
  }
}

Plan* read_plan(const py::object& made) {
  auto* plan = new Plan;
  py::object launcher = made.attr("launcher");
  plan->launcher = launcher.is_none() ? nullptr : launcher.release().ptr();
  for (auto item : made.attr("made")) {
    auto row = item.cast<py::tuple>();
    plan->made.push_back({row[0].cast<std::vector<int64_t>>(), row[1].cast<std::vector<int64_t>>(),
                          static_cast<c10::ScalarType>(row[2].cast<int>())});
  }
  plan->scratch = made.attr("scratch").cast<std::vector<int64_t>>();
  for (auto item : made.attr("returns")) {
    auto row = item.cast<py::tuple>();
    plan->returns.push_back({row[0].cast<int>(), row[1].cast<int>(), row[2].cast<std::vector<int>>()});
  }
  for (auto item : made.attr("resizes")) {
    auto row = item.cast<py::tuple>();
    plan->resizes.emplace_back(row[0].cast<int>(), row[1].cast<std::vector<int64_t>>());
  }
  plan->drawn = made.attr("drawn").cast<bool>();
  return plan;
}

struct DeviceScope {
  explicit DeviceScope(int device) : old(current_device()) {
    if (device >= 0 && device != old) {
      set_current_device(device);
    }
  }
  ~DeviceScope() {
    if (current_device() != old) {
      set_current_device(old);
    }
  }
  int old;
};

c10::DeviceIndex small(int device) { return static_cast<c10::DeviceIndex>(device); }

at::Tensor make(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, c10::ScalarType type) {
  static auto keys = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(sizes, strides, allocator(), keys, type);
}

// Sparse tensors have no operators on the device, and no CPU kernels either.
void refuse_sparse(const c10::OperatorHandle& op, Stack*) {
  TORCH_CHECK(false, "CAUTION: The operator '", op.schema().operator_name(),
              "' is not currently supported on the NPU backend: sparse tensors are not, error code is 100007");
}

// Runs a plan: the caller holds the GIL, ``stack`` holds the arguments and gets the results.
void run_plan(const c10::OperatorHandle& op, const Plan& plan, Arguments& a, Stack& stack) {
  int device = a.device < 0 ? current_device() : a.device;
  DeviceScope scope(device);
  for (const auto& [slot, sizes] : plan.resizes) {
    at::native::resize_output(a.tensors[slot], sizes);
  }
  c10::SmallVector<at::Tensor, 4> made;
  c10::SmallVector<c10::DataPtr, 4> scratch;
  for (const auto& t : plan.made) {
    made.push_back(make(t.sizes, t.strides, t.type));
  }
  for (auto bytes : plan.scratch) {
    scratch.push_back(allocator()->allocate(bytes));
  }
  if (plan.launcher != nullptr) {
    Untraced untraced;
    size_t n = a.tensors.size(), at_ = 0;
    PyObject* addresses = PyTuple_New(static_cast<Py_ssize_t>(n + made.size() + scratch.size()));
    for (const auto& t : a.tensors) PyTuple_SET_ITEM(addresses, at_++, PyLong_FromSize_t(address_of(t)));
    for (const auto& t : made) PyTuple_SET_ITEM(addresses, at_++, PyLong_FromSize_t(address_of(t)));
    for (const auto& p : scratch)
      PyTuple_SET_ITEM(addresses, at_++, PyLong_FromSize_t(reinterpret_cast<uintptr_t>(p.get())));
    PyObject* dev = PyLong_FromLong(device);
    PyObject* stream = PyLong_FromLongLong(current_stream(device));
    PyObject* argv[4] = {plan.launcher, dev, stream, addresses};
    PyObject* done = PyObject_Vectorcall(py_launch, argv, 4, nullptr);
    Py_DECREF(addresses);
    Py_DECREF(dev);
    Py_DECREF(stream);
    if (done == nullptr) {
      throw py::error_already_set();
    }
    Py_DECREF(done);
  }
  torch::jit::drop(stack, op.schema().arguments().size());
  for (const auto& r : plan.returns) {
    switch (r.kind) {
      case 0: stack.emplace_back(a.tensors[r.index]); break;
      case 1: stack.emplace_back(made[r.index]); break;
      case 2: stack.emplace_back(at::Tensor()); break;
      case 4: stack.emplace_back(static_cast<int64_t>(r.index)); break;
      default: {
        c10::List<at::Tensor> list;
        for (int i : r.list) list.push_back(made[i]);
        stack.emplace_back(std::move(list));
      }
    }
  }
}

py::object python_value(const IValue& v) {
  if (v.isGenerator()) {
    return py::none();
  }
  return torch::jit::toPyObject(v);
}

// -- CPU fallback

// The same bytes as a CPU tensor: the storage may grow, then it is other memory.
at::Tensor cpu_alias(const at::Tensor& t) {
  const auto& storage = t.storage();
  auto* keep = new c10::Storage(storage);
  c10::DataPtr data(storage.mutable_data(), keep, [](void* p) { delete static_cast<c10::Storage*>(p); },
                    c10::Device(c10::DeviceType::CPU));
  c10::Storage same(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetCPUAllocator(), true);
  auto out = at::detail::make_tensor<c10::TensorImpl>(std::move(same), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                      t.dtype());
  auto* impl = out.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
  impl->_set_conj(t.is_conj());
  impl->_set_neg(t.is_neg());
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return out;
}

size_t bytes_of(const at::Tensor& t) { return t.numel() * t.element_size(); }

struct Aliased {
  at::Tensor npu, cpu;
  void* data;
  bool written;
};

struct Fallback {
  std::vector<Aliased> aliased;
  int device = -1;
  size_t in_bytes = 0, out_bytes = 0;
  bool foreign = false;  // a CPU tensor with dimensions is among the arguments

  at::Tensor to_cpu(const at::Tensor& t, bool written) {
    if (!t.defined()) {
      return t;
    }
    if (t.device().type() != kNpu) {
      if (t.device().type() == c10::kCPU && t.dim() > 0) {
        foreign = true;
      }
      return t;
    }
    if (device == -1) {
      device = t.device().index();
    }
    if (!written) {
      in_bytes += bytes_of(t);
    }
    aliased.push_back({t, cpu_alias(t), nullptr, written});
    aliased.back().data = aliased.back().cpu.storage().mutable_data();
    return aliased.back().cpu;
  }

  // A tensor that a CPU kernel returned, as one of the device.
  at::Tensor to_npu(const at::Tensor& t, const c10::Argument& spec) {
    if (!t.defined()) {
      return t;
    }
    for (const auto& a : aliased) {
      if (a.cpu.unsafeGetTensorImpl() == t.unsafeGetTensorImpl()) {
        return a.npu;
      }
    }
    if (t.layout() != c10::kStrided) {
      TORCH_CHECK_NOT_IMPLEMENTED(false, "sparse tensors are not supported on device npu");
    }
    for (const auto& a : aliased) {  // a view of an argument
      if (t.storage().data() != nullptr && t.storage().data() == a.data && a.npu.storage().nbytes() == t.storage().nbytes()) {
        auto out = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(a.npu.storage()),
                                                            a.npu.key_set(), t.dtype());
        auto* impl = out.unsafeGetTensorImpl();
        impl->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
        impl->_set_conj(t.is_conj());
        impl->_set_neg(t.is_neg());
        return out;
      }
    }
    bool dense = t.is_non_overlapping_and_dense();
    auto source = dense ? t : t.contiguous();
    std::vector<int64_t> sizes(source.sizes().begin(), source.sizes().end());
    std::vector<int64_t> strides(source.strides().begin(), source.strides().end());
    auto out = make(sizes, strides, source.scalar_type());
    if (bytes_of(source) > 0) {
      std::memcpy(out.mutable_data_ptr(), source.const_data_ptr(), bytes_of(source));
    }
    out._set_conj(source.is_conj());
    out._set_neg(source.is_neg());
    out_bytes += bytes_of(out);
    return out;
  }

  void write_back() {
    for (auto& a : aliased) {
      if (!a.written) {
        continue;
      }
      out_bytes += bytes_of(a.cpu);
      bool moved = a.cpu.storage().data() != a.data;
      bool other = a.cpu.sizes() != a.npu.sizes() || a.cpu.strides() != a.npu.strides();
      if (!moved && !other) {
        continue;
      }
      auto* impl = a.npu.unsafeGetTensorImpl();
      size_t needed = a.cpu.storage().nbytes();
      if (needed > a.npu.storage().nbytes()) {  // the copy of what was there would come after the new values
        resize_storage(a.npu.storage().unsafeGetStorageImpl(), needed, !moved);
      }
      impl->set_sizes_and_strides(a.cpu.sizes(), a.cpu.strides(), a.cpu.storage_offset());
      if (moved && needed > 0) {
        std::memcpy(a.npu.storage().mutable_data(), a.cpu.storage().data(), needed);
      }
    }
  }
};

bool may_mix(const std::string& name) {
  static const std::set<std::string> names{"aten::index",        "aten::index_put_",   "aten::_index_put_impl_",
                                           "aten::index_put",    "aten::set_",         "aten::tensor_split",
                                           "aten::_pack_padded_sequence", "aten::_unsafe_index", "aten::lstm",
                                           "aten::_pad_packed_sequence",  "aten::_cudnn_rnn",    "aten::copy_",
                                           "aten::_ctc_loss", "aten::_ctc_loss_backward", "aten::_embedding_bag"};
  return names.count(name) > 0;
}

// Operators that the CPU has under another name.
c10::OperatorHandle cpu_operator(const c10::OperatorHandle& op, const std::string& name) {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (name == "aten::convolution_overrideable") {
    return dispatcher.findSchemaOrThrow("aten::convolution", "");
  }
  if (name == "aten::convolution_backward_overrideable") {
    return dispatcher.findSchemaOrThrow("aten::convolution_backward", "");
  }
  return op;
}

// ``quiet``: values are made now, time is charged elsewhere.
void fall_back(const c10::OperatorHandle& op, Operator& known, Stack* stack, bool quiet = false) {
  const auto& schema = op.schema();
  size_t count = schema.arguments().size();
  size_t begin = stack->size() - count;
  Fallback f;
  for (size_t i = 0; i < count; ++i) {
    IValue& v = (*stack)[begin + i];
    const auto* info = schema.arguments()[i].alias_info();
    bool written = (info != nullptr && info->isWrite()) || (i == 1 && known.name == "aten::_copy_from");
    if (v.isTensor()) {
      v = f.to_cpu(v.toTensor(), written);
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& t : v.toTensorVector()) list.push_back(f.to_cpu(t, written));
      v = std::move(list);
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : v.toOptionalTensorVector())
        list.push_back(t.has_value() ? std::optional<at::Tensor>(f.to_cpu(*t, written)) : std::nullopt);
      v = std::move(list);
    } else if (v.isDevice() && v.toDevice().type() == kNpu) {
      if (f.device == -1) f.device = v.toDevice().has_index() ? v.toDevice().index() : current_device();
      v = c10::Device(c10::DeviceType::CPU);
    }
  }
  if (f.device == -1) {
    f.device = current_device();
  }
  for (size_t i = 0; i < count; ++i) {
    IValue& v = (*stack)[begin + i];
    if (v.isGenerator()) {
      v = twin_of(v.toGenerator());
    } else if (v.isNone() && schema.arguments()[i].name() == "generator") {
      v = twin_of(default_generator(f.device));
    }
  }
  TORCH_CHECK(!f.foreign || f.aliased.empty() || may_mix(known.name),
              "Expected all tensors to be on the same device, but found at least two devices, npu:", f.device,
              " and cpu! (when calling ", known.name, ")");
  DeviceScope scope(f.device);
  if (!quiet) {
    py::gil_scoped_acquire gil;
    known.fallbacks++;
    ask(py_before, known.name, known.overload, f.device, current_stream(f.device), f.in_bytes);
  }
  {
    std::unique_ptr<py::gil_scoped_release> release;
    if (PyGILState_Check()) {
      release = std::make_unique<py::gil_scoped_release>();
    }
    if (known.name == "aten::_copy_from") {  // the CPU's name for it is copy_
      auto dst = torch::jit::peek(*stack, 1, 3).toTensor();
      dst.copy_(torch::jit::peek(*stack, 0, 3).toTensor());
      torch::jit::drop(*stack, 3);
      stack->emplace_back(dst);
    } else {
      auto other = cpu_operator(op, known.name);
      if (other == op) {
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
      } else {
        if (known.name == "aten::convolution_backward_overrideable") {  // the other wants the bias's sizes
          auto weight = (*stack)[begin + 2].toTensor();
          bool transposed = (*stack)[begin + 6].toBool();
          int64_t groups = (*stack)[begin + 8].toInt();
          int64_t bias = transposed ? weight.size(1) * groups : weight.size(0);
          stack->insert(stack->begin() + static_cast<int64_t>(begin) + 3, IValue(std::vector<int64_t>{bias}));
        }
        other.callBoxed(stack);
      }
    }
  }
  f.write_back();
  size_t results = schema.returns().size();
  size_t first = stack->size() - results;
  for (size_t i = 0; i < results; ++i) {
    IValue& v = (*stack)[first + i];
    if (v.isTensor()) {
      v = f.to_npu(v.toTensor(), schema.returns()[i]);
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& t : v.toTensorVector()) list.push_back(f.to_npu(t, schema.returns()[i]));
      v = std::move(list);
    }
  }
  if (!quiet) {
    py::gil_scoped_acquire gil;
    ask(py_after, known.name, f.device, f.out_bytes);
  }
}

// -- the one way in

// The plan for these arguments, nullptr when there is none. The caller holds the GIL.
Plan* plan_for(const c10::OperatorHandle& op, Operator& known, Arguments& a, const Stack& stack, size_t begin) {
  if (known.hopeless || !a.usable || a.mixed || py_compile == nullptr) {
    return nullptr;
  }
  auto it = known.plans.find(a.key);
  if (it != known.plans.end()) {
    return it->second;
  }
  py::list args;
  for (size_t i = begin; i < stack.size(); ++i) {
    args.append(python_value(stack[i]));
  }
  py::object made = ask(py_compile, known.name, known.overload, args);
  if (py::isinstance<py::bool_>(made)) {
    known.hopeless = true;
    return nullptr;
  }
  Plan* plan = made.is_none() ? nullptr : read_plan(made);
  if (known.plans.size() > 4096) {
    for (auto& [key, old] : known.plans) {
      if (old != nullptr) {
        Py_XDECREF(old->launcher);
        delete old;
      }
    }
    known.plans.clear();
  }
  known.plans[a.key] = plan;
  return plan;
}

}  // namespace

void dispatch(const c10::OperatorHandle& op, Stack* stack) {
  size_t begin = stack->size() - op.schema().arguments().size();
  Arguments a;
  Operator* known = nullptr;
  {
    py::gil_scoped_acquire gil;
    known = &operator_of(op);
    if (!known->hopeless) {
      a.key.reserve(256);
      for (size_t i = begin; i < stack->size() && a.usable; ++i) {
        describe(a, (*stack)[i]);
      }
      Plan* plan = a.usable ? plan_for(op, *known, a, *stack, begin) : nullptr;
      if (plan != nullptr) {
        known->planned++;
        if (plan->drawn && ask(py_settle, a.device < 0 ? current_device() : a.device).cast<bool>()) {
          Stack copy(stack->begin() + static_cast<int64_t>(begin), stack->end());
          if (backend().capturing(a.device < 0 ? current_device() : a.device, 0)) {
            // every replay draws anew; the tensors are kept: their memory must not serve others in between
            auto again = std::make_shared<Stack>(copy);
            ask(py_redraw, py::cpp_function([op, known, again] {
                  Stack once(*again);
                  fall_back(op, *known, &once, true);
                }));
          }
          fall_back(op, *known, &copy, true);
        }
        run_plan(op, *plan, a, *stack);
        return;
      }
    }
  }
  fall_back(op, *known, stack);
}

namespace {

// -- factories and views

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin, std::optional<c10::MemoryFormat> format) {
  auto d = c10::device_or_default(device);
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  auto type = c10::dtype_or_default(dtype);
  TORCH_CHECK(!c10::isQIntType(type), "device npu does not store tensors of type ", type);
  DeviceScope scope(d.has_index() ? d.index() : current_device());
  return at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type, format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool> pin) {
  auto d = c10::device_or_default(device);
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  DeviceScope scope(d.has_index() ? d.index() : current_device());
  return at::detail::empty_strided_generic(size, stride, allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset.has_value() ? std::make_optional(offset->guard_int(__FILE__, __LINE__)) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

void fit_storage(c10::TensorImpl* impl) {
  if (impl->numel() == 0) {
    return;
  }
  size_t needed = at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), impl->itemsize(),
                                                   impl->storage_offset());
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) {
    resize_storage(storage, needed);
  }
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<c10::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  if (self.sizes() != sizes) {
    impl->set_sizes_contiguous(sizes);
    fit_storage(impl);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format Preserve");
    impl->empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& set_storage_at(at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                           c10::SymIntArrayRef stride) {
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  auto strides = C10_AS_INTARRAYREF_SLOW(stride);
  int64_t at_ = offset.guard_int(__FILE__, __LINE__);
  at::native::checkSetStorage(self, std::move(source), at_, sizes, strides);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(at_);
  if (strides.data() != nullptr && strides.size() == sizes.size()) {
    impl->set_sizes_and_strides(sizes, strides);
  } else {
    impl->set_sizes_contiguous(sizes);
  }
  fit_storage(impl);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  int64_t n = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_at(self, std::move(source), 0, c10::SymIntArrayRef({c10::SymInt(n)}), {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) {
    return self;
  }
  return set_storage_at(self, source.storage(), source.storage_offset(), c10::fromIntArrayRefSlow(source.sizes()),
                        c10::fromIntArrayRefSlow(source.strides()));
}

at::Tensor& set_nothing(at::Tensor& self) {
  c10::Storage none(c10::Storage::use_byte_size_t(), 0, allocator()->allocate(0), allocator(), true);
  return set_storage_at(self, std::move(none), 0, c10::SymIntArrayRef({c10::SymInt(0)}), {});
}

// -- copies

void move_bytes(void* dst, const void* src, size_t n, int kind, bool async, bool pinned, int device) {
  if (n > 0) {
    int64_t stream = current_stream(device);
    backend().copy(reinterpret_cast<uintptr_t>(dst), reinterpret_cast<uintptr_t>(src), n, kind, async, pinned, device,
                   stream);
    if (async && pinned && kind <= 2) {
      pinned_used(kind == 1 ? src : dst, backend().record(0, device, stream, 0));
    }
  }
}

bool plain(const at::Tensor& t) { return t.is_non_overlapping_and_dense() && !t.is_conj() && !t.is_neg(); }

// The values of an npu tensor in new CPU memory.
at::Tensor fetch(const at::Tensor& self) {
  auto dense = plain(self) || self.is_non_overlapping_and_dense() ? self : self.contiguous();
  auto out = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(c10::kCPU));
  move_bytes(out.mutable_data_ptr(), dense.const_data_ptr(), bytes_of(dense), 2, false, false, dense.device().index());
  out._set_conj(dense.is_conj());
  out._set_neg(dense.is_neg());
  return out;
}

// Source and target of a copy that the device can convert by itself (complex numbers as pairs); undefined when it
// cannot.
std::pair<at::Tensor, at::Tensor> comparable(const at::Tensor& source, const at::Tensor& dst) {
  if (source.is_conj() || source.is_neg() || dst.is_conj() || dst.is_neg() || source.is_complex() != dst.is_complex()) {
    return {};
  }
  if (source.is_complex()) {
    return {at::native::view_as_real(source), at::native::view_as_real(dst)};
  }
  return {source, dst};
}

void to_device(const at::Tensor& source, const at::Tensor& dst, bool async) {
  int device = dst.device().index();
  DeviceScope scope(device);
  bool ready = source.scalar_type() == dst.scalar_type() && !source.is_conj() && !source.is_neg() && !dst.is_neg() &&
               !dst.is_conj() && source.sizes() == dst.sizes() && source.strides() == dst.strides() && plain(source);
  if (ready) {
    move_bytes(dst.mutable_data_ptr(), source.const_data_ptr(), bytes_of(source), 1, async, is_pinned(source.const_data_ptr()), device);
    return;
  }
  if (async && plain(source) && is_pinned(source.const_data_ptr())) {
    auto [from, to] = comparable(source, dst);
    if (from.defined()) {  // the bytes as they are; the device converts them, the host does not wait
      auto arrived = at::empty_strided(from.sizes(), from.strides(), from.options().device(dst.device()).pinned_memory(false));
      move_bytes(arrived.mutable_data_ptr(), from.const_data_ptr(), bytes_of(from), 1, true, true, device);
      at::_copy_from(arrived.expand(to.sizes()), to, true);
      return;
    }
  }
  auto target = plain(dst) ? dst : at::empty(dst.sizes(), dst.options().memory_format(c10::MemoryFormat::Contiguous));
  auto staged = at::empty_strided(target.sizes(), target.strides(), target.options().device(c10::kCPU));
  staged.copy_(source.resolve_conj().resolve_neg().expand(dst.sizes()));
  move_bytes(target.mutable_data_ptr(), staged.const_data_ptr(), bytes_of(staged), 1, false, false, device);
  if (!target.is_same(dst)) {
    at::_copy_from(target, dst, false);
  }
}

void copy_dispatch(const c10::OperatorHandle& op, Stack* stack) {
  const auto source = torch::jit::peek(*stack, 0, 3).toTensor();
  const auto dst = torch::jit::peek(*stack, 1, 3).toTensor();
  bool async = torch::jit::peek(*stack, 2, 3).toBool();
  if (on_npu(source) && on_npu(dst) && source.device() == dst.device()) {
    if (dst.numel() == 0 || source.is_same(dst)) {
      torch::jit::drop(*stack, 3);
      stack->emplace_back(dst);
      return;
    }
    dispatch(op, stack);
    return;
  }
  torch::jit::drop(*stack, 3);
  stack->emplace_back(dst);
  if (dst.numel() == 0) {
    return;
  }
  if (on_npu(source) && on_npu(dst)) {
    auto dense = source.is_contiguous() && plain(source) ? source : source.contiguous().resolve_conj().resolve_neg();
    bool ready = dense.scalar_type() == dst.scalar_type() && dst.is_contiguous() && plain(dst) && dense.sizes() == dst.sizes();
    DeviceScope scope(dst.device().index());
    auto target = ready ? dst : at::empty(dense.sizes(), dense.options().device(dst.device()));
    backend().synchronize_device(dense.device().index());
    move_bytes(target.mutable_data_ptr(), dense.const_data_ptr(), bytes_of(dense), 4, true, true, dst.device().index());
    if (!ready) {
      dst.copy_(target);
    }
    return;
  }
  if (on_npu(dst)) {
    to_device(source, dst, async);
    return;
  }
  bool ready = source.scalar_type() == dst.scalar_type() && plain(source) && plain(dst) &&
               source.sizes() == dst.sizes() && source.strides() == dst.strides();
  if (ready) {
    bool pinned = is_pinned(dst.const_data_ptr());
    move_bytes(dst.mutable_data_ptr(), source.const_data_ptr(), bytes_of(source), 2, async && pinned, pinned,
               source.device().index());
    return;
  }
  if (async && plain(dst) && is_pinned(dst.const_data_ptr())) {
    auto [from, to] = comparable(source, dst);
    if (from.defined()) {  // the device converts, the host does not wait
      DeviceScope scope(source.device().index());
      auto ready_one = at::empty_strided(to.sizes(), to.strides(), to.options().device(source.device()).pinned_memory(false));
      at::_copy_from(from.expand(to.sizes()), ready_one, true);
      move_bytes(to.mutable_data_ptr(), ready_one.const_data_ptr(), bytes_of(to), 2, true, true, source.device().index());
      return;
    }
  }
  auto fetched = fetch(source);
  dst.copy_(fetched);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) {
    dst.resize_(self.sizes());
  }
  return at::_copy_from(self, dst, false);
}

c10::Scalar local_scalar(const at::Tensor& self) {
  return at::_local_scalar_dense(fetch(self));
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  allocator()->recordStream(self.storage().data_ptr(), stream);
}

// ``cpu.data = npu`` and back: a parameter stays the same object when its module moves.
bool may_become(const at::Tensor& self, const at::Tensor& other) {
  auto dense = [](const at::Tensor& t) {
    return t.layout() == c10::kStrided && (t.key_set().has(c10::DispatchKey::CPU) || t.key_set().has(c10::DispatchKey::PrivateUse1));
  };
  return self.key_set() == other.key_set() || (dense(self) && dense(other));
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) { return at::native::is_set_to(self, other); }
at::Tensor view_as_complex(const at::Tensor& self) { return at::native::view_as_complex(self); }
at::Tensor view_as_real(const at::Tensor& self) { return at::native::view_as_real(self); }
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

// -- attention

bool flash = false;

// Which attention to use: the chip's own operator for what it serves, products and softmax for the rest.
int64_t attention_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double>,
                         bool) {
  constexpr int64_t kMath = 0, kOverrideable = 4;  // at::SDPBackend
  auto type = query.scalar_type();
  bool typed = type == at::kHalf || type == at::kBFloat16 || type == at::kFloat;
  bool shaped = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && query.numel() > 0 && key.numel() > 0 &&
                value.size(3) > 0 && query.size(0) == key.size(0) && query.size(1) == key.size(1) &&
                key.size(0) == value.size(0) && key.size(1) == value.size(1) && key.size(2) == value.size(2) &&
                query.size(3) == key.size(3);
  bool masked = mask.has_value() && mask->defined();
  bool served = flash && typed && shaped && dropout == 0.0 && key.scalar_type() == type &&
                value.scalar_type() == type && !(masked && (causal || mask->requires_grad() || mask->dim() > 4 || mask->dim() < 2));
  return served ? kOverrideable : kMath;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch>()); }

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage_storage_offset", &set_storage_at);
  m.impl("set_.source_Storage", &set_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_nothing);
  m.impl("is_set_to", &is_set_to);
  m.impl("_has_compatible_shallow_copy_type", &may_become);
  m.impl("_copy_from", torch::CppFunction::makeFromBoxedFunction<&copy_dispatch>());
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("record_stream", &record_stream);
  m.impl("view_as_complex", &view_as_complex);
  m.impl("view_as_real", &view_as_real);
  m.impl("unfold", &unfold);
  // operators that a decomposition would hide
  for (const char* name :
       {"native_layer_norm", "native_group_norm", "silu_backward", "mish_backward", "addr", "addr.out",
        "native_channel_shuffle", "_stack", "_stack.out", "all.dims", "all.dims_out", "any.dims", "any.dims_out",
        "linalg__powsum", "linalg__powsum.out", "convolution_overrideable", "convolution_backward_overrideable",
        "_thnn_fused_lstm_cell", "_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell",
        "_thnn_fused_gru_cell_backward", "_scaled_dot_product_fused_attention_overrideable",
        "_scaled_dot_product_fused_attention_overrideable_backward", "embedding", "mode.values"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&dispatch>());
  }
}

// A copy keeps conjugate and negative bits with the tensor that has them.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace npu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &npu::attention_choice);
}  // namespace at::native

namespace npu {

void set_dispatcher(py::object compile, py::object launch, py::object before, py::object after, py::object settle,
                    py::object redraw) {
  py_compile = compile.release().ptr();
  py_launch = launch.release().ptr();
  py_before = before.release().ptr();
  py_after = after.release().ptr();
  py_settle = settle.release().ptr();
  py_redraw = redraw.release().ptr();
}

void use_flash_attention(bool on) { flash = on; }

at::Tensor host_alias(const at::Tensor& tensor) { return cpu_alias(tensor); }

void clear_plans() {
  for (auto& [op, known] : operators) {
    known->plans.clear();
    known->hopeless = false;
  }
}

py::dict plan_counts() {
  py::dict counts;
  for (auto& [op, known] : operators) {
    std::string name = known->name + (known->overload.empty() ? "" : "." + known->overload);
    counts[py::str(name)] = py::make_tuple(known->planned, known->fallbacks);
  }
  return counts;
}

}  // namespace npu
