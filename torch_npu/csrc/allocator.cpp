// The caching allocator of device memory and the allocator of pinned host memory.
//
// Sizes and limits are those documented for PyTorch's CUDA allocator, which torch_npu follows: blocks are multiples of
// 512 B, up to 1 MiB they are cut from 2 MiB segments, up to 10 MiB from 20 MiB segments, larger ones get their own
// segment in steps of 2 MiB. Segments come from the arena that acl.rt.malloc uses.

#include "npu.h"


#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>

namespace npu {
namespace {

constexpr size_t kMinBlock = 512;
constexpr size_t kSmallSize = size_t(1) << 20;
constexpr size_t kSmallSegment = size_t(2) << 20;
constexpr size_t kMinLarge = size_t(10) << 20;
constexpr size_t kLargeSegment = size_t(20) << 20;
constexpr size_t kRound = size_t(2) << 20;

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

struct Block {
  int device;
  int64_t stream;
  int64_t pool;
  bool large;
  uintptr_t address;
  size_t size;
  size_t requested = 0;
  bool allocated = false;
  Block* prev = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  std::set<int64_t> uses;  // other streams that use it
  int pending = 0;         // events to pass before it is free
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
};
using Key = std::tuple<int64_t, int64_t, bool>;  // stream, pool, large
using Free = std::set<Block*, BySize>;

std::string human(size_t bytes) {
  std::ostringstream out;
  out.precision(2);
  out << std::fixed;
  if (bytes <= 1024) {
    out << bytes << " bytes";
  } else if (bytes <= (size_t(1) << 20)) {
    out << bytes / 1024.0 << " KiB";
  } else if (bytes <= (size_t(1) << 30)) {
    out << bytes / 1048576.0 << " MiB";
  } else {
    out << bytes / 1073741824.0 << " GiB";
  }
  return out.str();
}

struct Pool {
  std::recursive_mutex mutex;
  std::map<Key, Free> free;
  std::map<uintptr_t, size_t> segments;  // address -> size
  std::map<uintptr_t, Block*> firsts;    // first block of each segment
  std::vector<std::pair<int64_t, Block*>> waiting;  // event, block
  c10::CachingDeviceAllocator::DeviceStats stats;
  double fraction = 1.0;
  int64_t pool = 0;  // where allocations go now
  std::set<int64_t> dead_pools;
};

Pool pools[kMaxDevices];
std::atomic<bool> watched{false};
std::mutex blocks_mutex;
std::unordered_map<uintptr_t, Block*> blocks;

void add(StatArray& stats, bool large, int64_t amount) {
  for (auto kind : {StatType::AGGREGATE, large ? StatType::LARGE_POOL : StatType::SMALL_POOL}) {
    Stat& stat = stats[static_cast<size_t>(kind)];
    if (amount >= 0) {
      stat.increase(amount);
    } else {
      stat.decrease(-amount);
    }
  }
}

bool split(const Block* b) { return b->prev != nullptr || b->next != nullptr; }

void inactive(Pool& pool, const Block* b, int sign) {
  if (split(b)) {
    add(pool.stats.inactive_split, b->large, sign);
    add(pool.stats.inactive_split_bytes, b->large, sign * static_cast<int64_t>(b->size));
  }
}

void release_segment(Pool& pool, int device, Block* b) {
  backend().segment_free(device, b->address);
  pool.segments.erase(b->address);
  pool.firsts.erase(b->address);
  pool.stats.num_device_free++;
  add(pool.stats.segment, b->large, -1);
  add(pool.stats.reserved_bytes, b->large, -static_cast<int64_t>(b->size));
  delete b;
}

void release_cached(Pool& pool, int device, bool dead_only) {
  for (auto& [key, free] : pool.free) {
    int64_t owner = std::get<1>(key);
    if (owner != 0 && pool.dead_pools.count(owner) == 0) {
      continue;
    }
    if (dead_only && owner == 0) {
      continue;
    }
    for (auto it = free.begin(); it != free.end();) {
      Block* b = *it;
      if (split(b)) {
        ++it;
      } else {
        it = free.erase(it);
        release_segment(pool, device, b);
      }
    }
  }
}

// Joins a free block with free neighbours and puts it into its list.
void insert_free(Pool& pool, Block* b) {
  Free& free = pool.free[{b->stream, b->pool, b->large}];
  for (Block* other : {b->prev, b->next}) {
    if (other == nullptr || other->allocated || other->pending > 0) {
      continue;
    }
    inactive(pool, other, -1);
    free.erase(other);
    if (other == b->prev) {
      b->address = other->address;
      b->prev = other->prev;
      if (b->prev != nullptr) {
        b->prev->next = b;
      } else {
        pool.firsts[b->address] = b;
      }
    } else {
      b->next = other->next;
      if (b->next != nullptr) {
        b->next->prev = b;
      }
    }
    b->size += other->size;
    delete other;
  }
  inactive(pool, b, 1);
  free.insert(b);
}

void no_longer_active(Pool& pool, Block* b) {
  add(pool.stats.active, b->large, -1);
  add(pool.stats.active_bytes, b->large, -static_cast<int64_t>(b->size));
  insert_free(pool, b);
}

void look_at_events(Pool& pool) {
  for (size_t i = 0; i < pool.waiting.size();) {
    auto [event, block] = pool.waiting[i];
    if (!backend().query_event(event)) {
      ++i;
      continue;
    }
    backend().destroy_event(event);
    pool.waiting[i] = pool.waiting.back();
    pool.waiting.pop_back();
    if (--block->pending == 0) {
      no_longer_active(pool, block);
    }
  }
}

size_t now(const StatArray& stats) { return static_cast<size_t>(stats[0].current); }

[[noreturn]] void out_of_memory(Pool& pool, int device, size_t size) {
  pool.stats.num_ooms++;
  auto [room, total] = backend().memory_info(device);
  std::ostringstream text;
  text << "NPU out of memory. Tried to allocate " << human(size) << " (NPU " << device << "; " << human(total)
       << " total capacity; " << human(now(pool.stats.allocated_bytes)) << " already allocated; "
       << human(now(pool.stats.active_bytes)) << " current active; " << human(room) << " free; ";
  if (pool.fraction < 1.0) {
    text << human(static_cast<size_t>(pool.fraction * total)) << " allowed; ";
  }
  text << human(now(pool.stats.reserved_bytes)) << " reserved in total by PyTorch)"
       << " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.";
  TORCH_CHECK_WITH(OutOfMemoryError, false, text.str());
}

Block* new_segment(Pool& pool, int device, int64_t stream, size_t size, bool large) {
  size_t segment = !large ? kSmallSegment : size < kMinLarge ? kLargeSegment : (size + kRound - 1) / kRound * kRound;
  const auto attempt = [&]() -> uintptr_t {
    if (pool.fraction < 1.0) {
      size_t total = backend().memory_info(device).second;
      if (pool.stats.reserved_bytes[0].current + segment > pool.fraction * total) {
        return 0;
      }
    }
    return backend().segment_alloc(device, segment);
  };
  uintptr_t address = attempt();
  if (address == 0) {
    backend().synchronize_device(device);
    look_at_events(pool);
    release_cached(pool, device, false);
    pool.stats.num_alloc_retries++;
    address = attempt();
    if (address == 0) {
      out_of_memory(pool, device, size);
    }
  }
  pool.segments[address] = segment;
  pool.stats.num_device_alloc++;
  auto* block = new Block{device, stream, pool.pool, large, address, segment};
  pool.firsts[address] = block;
  add(pool.stats.segment, large, 1);
  add(pool.stats.reserved_bytes, large, segment);
  return block;
}

uintptr_t take(int device, size_t wanted, int64_t stream) {
  Pool& pool = pools[device];
  std::lock_guard<std::recursive_mutex> lock(pool.mutex);
  if (!pool.waiting.empty()) {
    look_at_events(pool);
  }
  size_t size = std::max(kMinBlock, (wanted + kMinBlock - 1) / kMinBlock * kMinBlock);
  bool large = size > kSmallSize;
  Free& free = pool.free[{stream, pool.pool, large}];
  Block probe{device, stream, pool.pool, large, 0, size};
  auto found = free.lower_bound(&probe);
  Block* block = nullptr;
  if (found != free.end()) {
    block = *found;
    free.erase(found);
    inactive(pool, block, -1);
  } else {
    block = new_segment(pool, device, stream, size, large);
  }
  size_t rest = block->size - size;
  if (large ? rest > kSmallSize : rest >= kMinBlock) {
    auto* tail = new Block{device, stream, block->pool, large, block->address + size, rest};
    tail->prev = block;
    tail->next = block->next;
    if (tail->next != nullptr) {
      tail->next->prev = tail;
    }
    block->next = tail;
    block->size = size;
    inactive(pool, tail, 1);
    free.insert(tail);
  }
  block->allocated = true;
  block->requested = wanted;
  add(pool.stats.allocation, large, 1);
  add(pool.stats.allocated_bytes, large, block->size);
  add(pool.stats.requested_bytes, large, wanted);
  add(pool.stats.active, large, 1);
  add(pool.stats.active_bytes, large, block->size);
  std::lock_guard<std::mutex> guard(blocks_mutex);
  blocks[block->address] = block;
  return block->address;
}

void give_back(void* pointer) {
  Block* block = nullptr;
  {
    std::lock_guard<std::mutex> guard(blocks_mutex);
    auto it = blocks.find(reinterpret_cast<uintptr_t>(pointer));
    if (it == blocks.end()) {
      return;
    }
    block = it->second;
    blocks.erase(it);
  }
  Pool& pool = pools[block->device];
  std::lock_guard<std::recursive_mutex> lock(pool.mutex);
  add(pool.stats.allocation, block->large, -1);
  add(pool.stats.allocated_bytes, block->large, -static_cast<int64_t>(block->size));
  add(pool.stats.requested_bytes, block->large, -static_cast<int64_t>(block->requested));
  block->allocated = false;
  if (!block->uses.empty() && python_alive()) {
    for (int64_t stream : block->uses) {
      block->pending++;
      pool.waiting.emplace_back(backend().record(0, block->device, stream, 0), block);
    }
    block->uses.clear();
    return;
  }
  no_longer_active(pool, block);
}

// Tells the simulator of a block that was taken, or given back (negative size). Holds no lock while it does.
void tell(int device, int64_t stream, uintptr_t address, int64_t size) {
  if (!python_alive()) {
    return;
  }
  size_t held[3];
  {
    Pool& pool = pools[device];
    std::lock_guard<std::recursive_mutex> lock(pool.mutex);
    held[0] = now(pool.stats.allocated_bytes);
    held[1] = now(pool.stats.reserved_bytes);
    held[2] = now(pool.stats.active_bytes);
  }
  backend().memory_changed(device, stream, address, size, held[0], held[1], held[2]);
}

void free_block(void* pointer) {
  if (!watched) {
    give_back(pointer);
    return;
  }
  auto address = reinterpret_cast<uintptr_t>(pointer);
  int device = -1;
  int64_t stream = 0, size = 0;
  {
    std::lock_guard<std::mutex> guard(blocks_mutex);
    auto it = blocks.find(address);
    if (it != blocks.end()) {
      device = it->second->device;
      stream = it->second->stream;
      size = static_cast<int64_t>(it->second->size);
    }
  }
  give_back(pointer);
  if (device >= 0) {
    tell(device, stream, address, -size);
  }
}

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    int device = current_device();
    c10::Device where(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device));
    if (n == 0) {
      return {nullptr, nullptr, &free_block, where};
    }
    TORCH_CHECK_WITH(OutOfMemoryError, n < (size_t(1) << 60), "NPU out of memory. Tried to allocate more than 1EB memory (NPU ",
                     device, ").");
    int64_t stream = current_stream(device);
    uintptr_t address = take(device, n, stream);
    if (watched) {
      tell(device, stream, address, static_cast<int64_t>((n + kMinBlock - 1) / kMinBlock * kMinBlock));
    }
    auto* pointer = reinterpret_cast<void*>(address);
    return {pointer, pointer, &free_block, where};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dst, const void* src, size_t count) const override {
    int device = device_of(src);
    backend().copy(reinterpret_cast<uintptr_t>(dst), reinterpret_cast<uintptr_t>(src), count, 3, true, true, device,
                   current_stream(device));
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {
    for (int device = 0; device < kMaxDevices; ++device) {
      Pool& pool = pools[device];
      std::lock_guard<std::recursive_mutex> lock(pool.mutex);
      if (!pool.segments.empty()) {
        look_at_events(pool);
        release_cached(pool, device, false);
      }
    }
  }
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    std::lock_guard<std::mutex> guard(blocks_mutex);
    auto it = blocks.find(reinterpret_cast<uintptr_t>(ptr.get()));
    if (it != blocks.end() && it->second->stream != stream.id()) {
      it->second->uses.insert(stream.id());
    }
  }
  void eraseStream(const c10::DataPtr& ptr, int64_t stream) {
    std::lock_guard<std::mutex> guard(blocks_mutex);
    auto it = blocks.find(reinterpret_cast<uintptr_t>(ptr.get()));
    if (it != blocks.end()) {
      it->second->uses.erase(stream);
    }
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    Pool& pool = pools[device];
    std::lock_guard<std::recursive_mutex> lock(pool.mutex);
    return pool.stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    each(device, [](Stat& stat) { stat.reset_accumulated(); });
    pools[device].stats.num_alloc_retries = 0;
    pools[device].stats.num_ooms = 0;
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    each(device, [](Stat& stat) { stat.reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override { return backend().memory_info(device); }

 private:
  template <typename F>
  void each(int device, F f) {
    Pool& pool = pools[device];
    std::lock_guard<std::recursive_mutex> lock(pool.mutex);
    auto& s = pool.stats;
    for (auto* array : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes, &s.reserved_bytes,
                        &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes}) {
      for (auto& stat : *array) {
        f(stat);
      }
    }
  }
};

// -- pinned host memory: freed blocks are kept by size

std::mutex host_mutex;
std::map<uintptr_t, size_t> host_blocks;
std::multimap<size_t, uintptr_t> host_free_list;
std::multimap<uintptr_t, int64_t> host_uses;  // block, event behind an asynchronous copy that uses it

// Whether no copy uses a block any more.
bool host_idle(uintptr_t address) {
  auto range = host_uses.equal_range(address);
  for (auto it = range.first; it != range.second;) {
    if (!backend().query_event(it->second)) {
      return false;
    }
    backend().destroy_event(it->second);
    it = host_uses.erase(it);
  }
  return true;
}

void host_give_back(void* pointer) {
  std::lock_guard<std::mutex> lock(host_mutex);
  auto it = host_blocks.find(reinterpret_cast<uintptr_t>(pointer));
  if (it != host_blocks.end()) {
    host_free_list.emplace(it->second, it->first);
  }
}

class HostMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    c10::Device where(c10::DeviceType::CPU);
    if (n == 0) {
      return {nullptr, nullptr, &host_give_back, where};
    }
    size_t size = 512;
    while (size < n) {
      size *= 2;
    }
    uintptr_t address = 0;
    {
      std::lock_guard<std::mutex> lock(host_mutex);
      auto range = host_free_list.equal_range(size);
      for (auto it = range.first; it != range.second; ++it) {
        if (host_idle(it->second)) {
          address = it->second;
          host_free_list.erase(it);
          break;
        }
      }
    }
    if (address == 0) {
      address = backend().host_alloc(size);
      TORCH_CHECK(address != 0, "no room for ", n, " B of pinned host memory");
      std::lock_guard<std::mutex> lock(host_mutex);
      host_blocks[address] = size;
    }
    auto* pointer = reinterpret_cast<void*>(address);
    return {pointer, pointer, &host_give_back, where};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &host_give_back; }
  void copy_data(void* dst, const void* src, size_t count) const override { std::memcpy(dst, src, count); }
};

DeviceMemory device_memory;
HostMemory host_memory;

}  // namespace

c10::DeviceAllocator* allocator() { return &device_memory; }
void erase_stream(const c10::DataPtr& ptr, int64_t stream) { device_memory.eraseStream(ptr, stream); }
c10::Allocator* host_allocator() { return &host_memory; }

void watch_memory(bool on) { watched = on; }

void register_allocator() { c10::SetAllocator(c10::DeviceType::PrivateUse1, &device_memory, 100); }

int device_of(const void* pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  for (int device = 0; device < kMaxDevices; ++device) {
    Pool& pool = pools[device];
    std::lock_guard<std::recursive_mutex> lock(pool.mutex);
    auto it = pool.segments.upper_bound(address);
    if (it != pool.segments.begin()) {
      --it;
      if (address < it->first + it->second) {
        return device;
      }
    }
  }
  return -1;
}

bool is_pinned(const void* pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::mutex> lock(host_mutex);
  auto it = host_blocks.upper_bound(address);
  if (it == host_blocks.begin()) {
    return false;
  }
  --it;
  return address < it->first + it->second;
}

void pinned_used(const void* pointer, int64_t event) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::mutex> lock(host_mutex);
  auto it = host_blocks.upper_bound(address);
  if (it != host_blocks.begin()) {
    host_uses.emplace((--it)->first, event);
  }
}

void set_memory_fraction(int device, double fraction) { pools[device].fraction = fraction; }

void set_pool(int device, int64_t pool) {
  std::lock_guard<std::recursive_mutex> lock(pools[device].mutex);
  pools[device].pool = pool;
}

void release_pool(int device, int64_t pool) {
  Pool& state = pools[device];
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  state.dead_pools.insert(pool);
  release_cached(state, device, true);
}

std::vector<SegmentInfo> memory_snapshot() {
  std::vector<SegmentInfo> result;
  for (auto& pool : pools) {
    std::lock_guard<std::recursive_mutex> lock(pool.mutex);
    for (auto& [address, first] : pool.firsts) {
      SegmentInfo info{first->device, first->stream, first->pool, address, pool.segments[address], first->large, {}};
      for (Block* b = first; b != nullptr; b = b->next) {
        info.pieces.push_back({b->address, b->size, b->requested, b->allocated});
      }
      result.push_back(std::move(info));
    }
  }
  return result;
}

}  // namespace npu
