// The extension module: hands the simulator's functions to the device layer.

#include "npu.h"
#include "ops.h"
#include "random.h"
#include "untraced.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace npu {

Backend& backend() {
  static Backend instance;
  return instance;
}

bool python_alive() { return Py_IsInitialized() != 0 && !_Py_IsFinalizing(); }

namespace {

template <typename R, typename... A>
std::function<R(A...)> call(const py::object& object, const char* name) {
  PyObject* function = py::object(object.attr(name)).release().ptr();
  return [function](A... args) -> R {
    py::gil_scoped_acquire gil;
    Untraced untraced;
    py::object result = py::handle(function)(args...);
    if constexpr (!std::is_void_v<R>) {
      return result.template cast<R>();
    }
  };
}

void set_backend(const py::object& o) {
  Backend& b = backend();
  b.device_count = call<int>(o, "device_count");
  b.segment_alloc = call<uintptr_t, int, size_t>(o, "segment_alloc");
  b.segment_free = call<void, int, uintptr_t>(o, "segment_free");
  b.memory_info = call<std::pair<size_t, size_t>, int>(o, "memory_info");
  b.memory_changed =
      call<void, int, int64_t, uintptr_t, int64_t, size_t, size_t, size_t>(o, "memory_changed");
  b.host_alloc = call<uintptr_t, size_t>(o, "host_alloc");
  b.host_free = call<void, uintptr_t>(o, "host_free");
  b.new_stream = call<int64_t, int, int>(o, "new_stream");
  b.record = call<int64_t, int64_t, int, int64_t, int>(o, "record");
  b.block = call<void, int64_t, int, int64_t>(o, "block");
  b.query_event = call<bool, int64_t>(o, "query_event");
  b.synchronize_event = call<void, int64_t>(o, "synchronize_event");
  b.destroy_event = call<void, int64_t>(o, "destroy_event");
  b.elapsed_ms = call<double, int64_t, int64_t>(o, "elapsed_ms");
  b.query_stream = call<bool, int, int64_t>(o, "query_stream");
  b.synchronize_stream = call<void, int, int64_t>(o, "synchronize_stream");
  b.synchronize_device = call<void, int>(o, "synchronize_device");
  b.capturing = call<bool, int, int64_t>(o, "capturing");
  b.values = call<bool>(o, "values");
  b.copy = call<void, uintptr_t, uintptr_t, size_t, int, bool, bool, int, int64_t>(o, "copy");
  register_allocator();
  register_hooks();
}

py::dict stat(const c10::CachingAllocator::Stat& s) {
  py::dict d;
  d["current"] = s.current;
  d["peak"] = s.peak;
  d["allocated"] = s.allocated;
  d["freed"] = s.freed;
  return d;
}

py::dict stats(const c10::CachingAllocator::StatArray& array) {
  py::dict d;
  d["all"] = stat(array[0]);
  d["small_pool"] = stat(array[1]);
  d["large_pool"] = stat(array[2]);
  return d;
}

py::dict memory_stats(int device) {
  auto s = allocator()->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  py::dict d;
  d["num_alloc_retries"] = s.num_alloc_retries;
  d["num_ooms"] = s.num_ooms;
  d["num_sync_all_streams"] = s.num_sync_all_streams;
  d["num_device_alloc"] = s.num_device_alloc;
  d["num_device_free"] = s.num_device_free;
  d["max_split_size"] = -1;
  d["allocation"] = stats(s.allocation);
  d["segment"] = stats(s.segment);
  d["active"] = stats(s.active);
  d["inactive_split"] = stats(s.inactive_split);
  d["allocated_bytes"] = stats(s.allocated_bytes);
  d["reserved_bytes"] = stats(s.reserved_bytes);
  d["active_bytes"] = stats(s.active_bytes);
  d["inactive_split_bytes"] = stats(s.inactive_split_bytes);
  d["requested_bytes"] = stats(s.requested_bytes);
  d["oversize_allocations"] = stat(s.oversize_allocations);
  d["oversize_segments"] = stat(s.oversize_segments);
  return d;
}

py::list snapshot() {
  py::list result;
  for (const auto& segment : memory_snapshot()) {
    py::dict d;
    d["device"] = segment.device;
    d["address"] = segment.address;
    d["total_size"] = segment.size;
    d["stream"] = segment.stream;
    d["segment_type"] = segment.large ? "large" : "small";
    d["segment_pool_id"] = py::make_tuple(0, segment.pool);
    size_t allocated = 0;
    py::list pieces;
    for (const auto& piece : segment.pieces) {
      py::dict p;
      p["address"] = piece.address;
      p["size"] = piece.size;
      p["requested_size"] = piece.requested;
      p["state"] = piece.allocated ? "active_allocated" : "inactive";
      allocated += piece.allocated ? piece.size : 0;
      pieces.append(p);
    }
    d["allocated_size"] = allocated;
    d["active_size"] = allocated;
    d["blocks"] = pieces;
    result.append(d);
  }
  return result;
}

}  // namespace
}  // namespace npu

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("set_backend", &npu::set_backend);
  m.def("set_dispatcher", &npu::set_dispatcher);
  m.def("clear_plans", &npu::clear_plans);
  m.def("use_flash_attention", &npu::use_flash_attention);
  m.def("plan_counts", &npu::plan_counts);
  m.def("current_device", &npu::current_device);
  m.def("set_device", &npu::set_current_device);
  m.def("current_stream", &npu::current_stream);
  m.def("set_stream", &npu::set_current_stream);
  m.def("memory_stats", &npu::memory_stats);
  m.def("memory_snapshot", &npu::snapshot);
  m.def("empty_cache", [] { npu::allocator()->emptyCache(); });
  m.def("reset_peak_memory_stats", [](int d) { npu::allocator()->resetPeakStats(static_cast<c10::DeviceIndex>(d)); });
  m.def("reset_accumulated_memory_stats",
        [](int d) { npu::allocator()->resetAccumulatedStats(static_cast<c10::DeviceIndex>(d)); });
  m.def("watch_memory", &npu::watch_memory);
  m.def("set_memory_fraction", &npu::set_memory_fraction);
  m.def("set_pool", &npu::set_pool);
  m.def("release_pool", &npu::release_pool);
  m.def("default_generator", [](int d) { return npu::default_generator(d); });
  m.def("twin_of", [](const at::Generator& g) { return npu::twin_of(g); });
  m.def("host_alias", &npu::host_alias);
  m.def("is_pinned", [](uintptr_t p) { return npu::is_pinned(reinterpret_cast<void*>(p)); });
  m.def("record_stream", [](const at::Tensor& t, int64_t stream) {
    npu::allocator()->recordStream(t.storage().data_ptr(),
                                   c10::Stream(c10::Stream::UNSAFE, t.device(), stream));
  });
  m.def("erase_stream",
        [](const at::Tensor& t, int64_t stream) { npu::erase_stream(t.storage().data_ptr(), stream); });
}
