// Device guard, hooks and random generators of device "npu".

#include "npu.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mutex>

#include "random.h"

namespace npu {
namespace {

constexpr auto kNpu = c10::DeviceType::PrivateUse1;
thread_local int tls_device = 0;
thread_local int64_t tls_streams[kMaxDevices] = {};

int checked(int device) {
  int count = backend().device_count();
  TORCH_CHECK(device >= 0 && device < count, "invalid device npu:", device, ": this machine has ", count,
              " NPUs, expected an index from 0 to ", count - 1, ", error code is 107001");
  return device;
}

c10::Device device_at(int index) { return {kNpu, static_cast<c10::DeviceIndex>(index)}; }

int index_of(c10::Device device) { return device.has_index() ? device.index() : tls_device; }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNpu; }
  c10::Device exchangeDevice(c10::Device d) const override {
    auto old = device_at(tls_device);
    setDevice(d);
    return old;
  }
  c10::Device getDevice() const override { return device_at(tls_device); }
  void setDevice(c10::Device d) const override {
    if (d.index() != tls_device) {
      tls_device = checked(d.index());
    }
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override { tls_device = d.index(); }
  c10::Stream getStream(c10::Device d) const override {
    int index = index_of(d);
    return c10::Stream(c10::Stream::UNSAFE, device_at(index), tls_streams[index]);
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::UNSAFE, device_at(index_of(d)), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high = false) const override {
    return getNewStream(d, high ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device d, int priority = 0) const override {
    int index = checked(index_of(d));
    return c10::Stream(c10::Stream::UNSAFE, device_at(index), backend().new_stream(index, priority));
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    int index = s.device_index();
    auto old = c10::Stream(c10::Stream::UNSAFE, device_at(index), tls_streams[index]);
    tls_streams[index] = s.id();
    return old;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr && python_alive()) {
      backend().destroy_event(reinterpret_cast<int64_t>(event));
    }
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex index, c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ", static_cast<int>(index),
                " does not match recording stream's device index ", static_cast<int>(stream.device_index()), ".");
    *event = reinterpret_cast<void*>(backend().record(reinterpret_cast<int64_t>(*event), stream.device_index(),
                                                      stream.id(), static_cast<int>(flag)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      backend().block(reinterpret_cast<int64_t>(event), stream.device_index(), stream.id());
    }
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || backend().query_event(reinterpret_cast<int64_t>(event));
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    try {
      return static_cast<c10::DeviceIndex>(backend().device_count());
    } catch (...) {
      return 0;
    }
  }
  bool queryStream(const c10::Stream& s) const override { return backend().query_stream(s.device_index(), s.id()); }
  void synchronizeStream(const c10::Stream& s) const override {
    backend().synchronize_stream(s.device_index(), s.id());
  }
  bool isStreamCapturing(const c10::Stream& s) const override {
    return backend().capturing(s.device_index(), s.id());
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      backend().synchronize_event(reinterpret_cast<int64_t>(event));
    }
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    backend().synchronize_device(index < 0 ? tls_device : index);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator()->recordStream(data, stream);
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    return backend().elapsed_ms(reinterpret_cast<int64_t>(first), reinterpret_cast<int64_t>(second));
  }
  void* getStreamNativeHandle(const c10::Stream s) const override { return reinterpret_cast<void*>(s.id()); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// -- random numbers: a generator of the device owns a CPU generator that the kernels draw from

class Generator final : public c10::GeneratorImpl {
 public:
  Generator(int device, at::Generator twin)
      : GeneratorImpl(device_at(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), twin_(std::move(twin)) {}
  void set_current_seed(uint64_t seed) override {
    offset_ = 0;
    twin_.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return twin_.current_seed(); }
  uint64_t seed() override {
    offset_ = 0;
    return twin_.seed();
  }
  void set_state(const c10::TensorImpl& state) override { twin_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return twin_.unsafeGetGeneratorImpl()->get_state(); }
  const at::Generator& twin() const { return twin_; }

 private:
  Generator* clone_impl() const override { return new Generator(device().index(), twin_.clone()); }
  at::Generator twin_;
  uint64_t offset_ = 0;
};

at::Generator made(int device) {
  return at::Generator(c10::make_intrusive<Generator>(device, at::detail::createCPUGenerator()));
}

}  // namespace

const at::Generator& default_generator(int device) {
  static std::once_flag flags[kMaxDevices];
  static at::Generator generators[kMaxDevices];
  int index = device < 0 ? tls_device : checked(device);
  std::call_once(flags[index], [&] { generators[index] = made(index); });
  return generators[index];
}

at::Generator twin_of(const at::Generator& generator) {
  if (!generator.defined() || generator.device().type() != kNpu) {
    return generator;
  }
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->twin();
}

int current_device() { return tls_device; }
void set_current_device(int device) { tls_device = checked(device); }
int64_t current_stream(int device) { return tls_streams[device]; }
void set_current_stream(int device, int64_t stream) { tls_streams[device] = stream; }

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return backend().device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(backend().device_count()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(tls_device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    auto old = static_cast<c10::DeviceIndex>(tls_device);
    set_current_device(device);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? static_cast<c10::DeviceIndex>(tls_device) : exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device = -1) const override {
    return made(device < 0 ? tls_device : checked(device));
  }
  at::Device getDeviceFromPtr(void* data) const override {
    int device = device_of(data);
    TORCH_CHECK(device >= 0, "the pointer ", data, " is no memory of device npu");
    return device_at(device);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t newsize) const override {
    resize_storage(storage.unsafeGetStorageImpl(), newsize);
  }
};

}  // namespace

void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

void resize_storage(c10::StorageImpl* storage, size_t nbytes, bool keep) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  int device = storage->device().index();
  c10::DataPtr data;
  int old_device = tls_device;
  tls_device = device;
  try {
    data = allocator()->allocate(nbytes);
    size_t kept = keep ? std::min(nbytes, storage->nbytes()) : 0;
    if (kept > 0 && storage->data() != nullptr) {
      backend().copy(reinterpret_cast<uintptr_t>(data.get()), reinterpret_cast<uintptr_t>(storage->data()), kept, 3,
                     true, true, device, current_stream(device));
    }
  } catch (...) {
    tls_device = old_device;
    throw;
  }
  tls_device = old_device;
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(nbytes);
}

}  // namespace npu
