// What the translation units of the device layer share.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace npu {

constexpr int kMaxDevices = 64;

// The simulator's side, in Python: every function takes the GIL itself. Filled in by module.cpp.
struct Backend {
  std::function<int()> device_count;
  // Device memory from the arena of acl.rt.malloc; 0 when there is no room.
  std::function<uintptr_t(int device, size_t nbytes)> segment_alloc;
  std::function<void(int device, uintptr_t address)> segment_free;
  std::function<std::pair<size_t, size_t>(int device)> memory_info;  // free, total
  // A block was taken, or given back (negative size); then what is allocated, reserved and active.
  std::function<void(int device, int64_t stream, uintptr_t address, int64_t size, size_t allocated, size_t reserved,
                     size_t active)>
      memory_changed;
  std::function<uintptr_t(size_t nbytes)> host_alloc;
  std::function<void(uintptr_t address)> host_free;
  std::function<int64_t(int device, int priority)> new_stream;
  std::function<int64_t(int64_t event, int device, int64_t stream, int flag)> record;
  std::function<void(int64_t event, int device, int64_t stream)> block;
  std::function<bool(int64_t event)> query_event;
  std::function<void(int64_t event)> synchronize_event;
  std::function<void(int64_t event)> destroy_event;
  std::function<double(int64_t first, int64_t second)> elapsed_ms;
  std::function<bool(int device, int64_t stream)> query_stream;
  std::function<void(int device, int64_t stream)> synchronize_stream;
  std::function<void(int device)> synchronize_device;
  std::function<bool(int device, int64_t stream)> capturing;
  std::function<bool()> values;  // whether values are computed
  // Bytes between places: kind 1 host to device, 2 device to host, 3 inside a device, 4 between devices.
  std::function<void(uintptr_t dst, uintptr_t src, size_t nbytes, int kind, bool async, bool pinned, int device,
                     int64_t stream)>
      copy;
};

Backend& backend();

// False once the interpreter is going down: nothing of Python may be touched any more.
bool python_alive();

// Current device and streams of the calling thread.
int current_device();
void set_current_device(int device);
int64_t current_stream(int device);
void set_current_stream(int device, int64_t stream);

// -- memory

// A block that a tensor's storage uses, by address.
c10::DeviceAllocator* allocator();
void erase_stream(const c10::DataPtr& ptr, int64_t stream);  // undoes recordStream
void register_allocator();
int device_of(const void* pointer);  // -1: no device memory
bool is_pinned(const void* pointer);
void pinned_used(const void* pointer, int64_t event);  // until the event is reached
void watch_memory(bool on);  // whether memory_changed is called
void set_memory_fraction(int device, double fraction);
// Allocations of the calling thread's device go to this pool until it is set back to 0 (graphs).
void set_pool(int device, int64_t pool);
void release_pool(int device, int64_t pool);
struct SegmentInfo {
  int device;
  int64_t stream;
  int64_t pool;
  uintptr_t address;
  size_t size;
  bool large;
  struct Piece {
    uintptr_t address;
    size_t size;
    size_t requested;
    bool allocated;
  };
  std::vector<Piece> pieces;
};
std::vector<SegmentInfo> memory_snapshot();
c10::Allocator* host_allocator();

}  // namespace npu
