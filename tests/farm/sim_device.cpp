// A Paddle custom device `sim_gpu` without hardware: its memory is host memory, its account is the farm's shared file.
//
// Paddle runs its CPU kernels on the tensors (FLAGS_enable_api_kernel_fallback, on by default), so values are real.
// What it simulates is what surrounds them: how much memory there is, who holds it, and what can go wrong.

#include <paddle/common/enforce.h>
#include <paddle/phi/backends/device_ext.h>

#include <atomic>
#include <string>
#include <vector>

#include "sim_state.h"

namespace {

sim_state *farm = nullptr;
sim_process *own = nullptr;  // this process's entry; looked up anew after a fork
// Paddle's device k is visible[k] of the farm. Never destroyed: Paddle gives tensors back while the process exits.
std::vector<uint64_t> &visible = *new std::vector<uint64_t>;
std::atomic<uint64_t> prepared{0};
uint64_t inherited = 0;  // devices that a parent had prepared: as with CUDA, they are of no use here
thread_local int current = 0;

// The codes and names of cudaError_t (driver_types.h of the CUDA toolkit) that people meet when a device is in trouble.
const char *meaning(int64_t code) {
  switch (code) {
    case 2: return "cudaErrorMemoryAllocation: out of memory";
    case 3: return "cudaErrorInitializationError: initialization error";
    case 45: return "cudaErrorDeviceLost: the device is lost";
    case 46: return "cudaErrorDevicesUnavailable: all CUDA-capable devices are busy or unavailable";
    case 101: return "cudaErrorInvalidDevice: invalid device ordinal";
    case 700: return "cudaErrorIllegalAddress: an illegal memory access was encountered";
    default: return "unspecified failure";
  }
}

[[noreturn]] void fail(int64_t code) {
  // Paddle's own kind of error, as its CUDA backend raises: a status would lose the text, and any other exception ends
  // the process. Both spellings of the code, Paddle's and the plain one.
  PADDLE_THROW(common::errors::External("CUDA error(%d), %s. (CUDA error %d)", code, meaning(code), code));
}

uint64_t place(const C_Device device) {
  const auto id = static_cast<size_t>(device->id);
  if (id >= visible.size()) fail(101);
  return visible[id];
}

// False where a fault refuses; does not return where it kills or fails. `corrupt` is set where data is to be damaged.
bool allowed(sim_event event, uint64_t device, bool *corrupt = nullptr) {
  const sim_fault fault = sim_fault_at(farm, event, static_cast<int64_t>(device), nullptr);
  switch (fault.action) {
    case SIM_REFUSE: return false;
    case SIM_ABORT: abort();
    case SIM_SEGFAULT:
      *static_cast<volatile int *>(nullptr) = 0;
      return false;
    case SIM_HANG: sim_sleep(fault.milliseconds); return true;
    case SIM_FAIL: fail(fault.code);
    case SIM_CORRUPT:
      if (corrupt != nullptr) *corrupt = true;
      return true;
    default: return true;
  }
}

void take_context(uint64_t device) {
  const uint64_t bit = 1ULL << device;
  if (prepared.load(std::memory_order_relaxed) & bit) return;
  if (inherited & bit) fail(3);
  if (!allowed(SIM_INIT, device)) fail(2);
  sim_lock(farm);
  if (own == nullptr) own = sim_own(farm);
  bool fits = true;
  if (!(prepared.load() & bit)) {
    fits = sim_take(farm, own, device, farm->device[device].context);
    if (fits) {
      own->contexts |= bit;
      prepared |= bit;
    }
  }
  sim_unlock(farm);
  if (!fits) fail(2);
}

void after_fork() {
  inherited |= prepared.exchange(0);
  own = nullptr;
  memset(sim_counted, 0, sizeof sim_counted);
}

C_Status init_device(const C_Device device) {
  (void)place(device);  // Paddle does this for all devices at once; the context is taken by the first use
  return C_SUCCESS;
}

C_Status set_device(const C_Device device) {
  take_context(place(device));
  current = device->id;
  return C_SUCCESS;
}

C_Status get_device(const C_Device device) {
  device->id = current;
  return C_SUCCESS;
}

C_Status deinit_device(const C_Device device) {
  const uint64_t where = place(device), bit = 1ULL << where;
  if (!(prepared.load() & bit)) return C_SUCCESS;
  sim_lock(farm);
  if (prepared.load() & bit) {
    sim_give(farm, own, where, farm->device[where].context);
    own->contexts &= ~bit;
    prepared &= ~bit;
  }
  sim_unlock(farm);
  return C_SUCCESS;
}

C_Status allocate(const C_Device device, void **pointer, size_t size) {
  const uint64_t where = place(device);
  take_context(where);
  *pointer = nullptr;
  if (!allowed(SIM_ALLOCATE, where)) {
    sim_lock(farm);
    sim_refused(farm, where, size, 1);
    sim_unlock(farm);
    return C_SUCCESS;
  }
  sim_lock(farm);
  const bool fits = sim_take(farm, own, where, size);
  if (fits) farm->device[where].allocations++;
  sim_unlock(farm);
  if (!fits) return C_SUCCESS;  // with a null pointer Paddle raises its out-of-memory error; C_FAILED it calls "External"
  if (posix_memalign(pointer, 256, size ? size : 1) != 0) sim_die("the host has no memory behind a device", "out of memory");
  return C_SUCCESS;
}

C_Status deallocate(const C_Device device, void *pointer, size_t size) {
  const uint64_t where = place(device);
  free(pointer);
  if (!(prepared.load() & (1ULL << where))) return C_SUCCESS;  // a parent's tensor, or the context is gone already
  sim_lock(farm);
  sim_give(farm, own, where, size);
  farm->device[where].frees++;
  sim_unlock(farm);
  return C_SUCCESS;
}

C_Status copy(const C_Device device, void *to, const void *from, size_t size) {
  const uint64_t where = place(device);
  take_context(where);
  bool corrupt = false;
  if (!allowed(SIM_COPY, where, &corrupt)) return C_FAILED;
  __atomic_fetch_add(&farm->device[where].copies, 1, __ATOMIC_RELAXED);
  memcpy(to, from, size);
  // In a float32 this byte has the sign and the upper bits of the exponent: a quarter of the value, and a second copy
  // does not mend it.
  if (corrupt && size > 0) static_cast<unsigned char *>(to)[size - 1] -= 1;
  return C_SUCCESS;
}

C_Status copy_async(const C_Device device, C_Stream, void *to, const void *from, size_t size) {
  return copy(device, to, from, size);
}

C_Status copy_peer(const C_Device to_device, const C_Device, void *to, const void *from, size_t size) {
  return copy(to_device, to, from, size);
}

C_Status copy_peer_async(const C_Device to_device, const C_Device, C_Stream, void *to, const void *from, size_t size) {
  return copy(to_device, to, from, size);
}

C_Status set_memory(const C_Device device, void *pointer, unsigned char value, size_t size) {
  take_context(place(device));
  memset(pointer, value, size);
  return C_SUCCESS;
}

C_Status allocate_host(const C_Device, void **pointer, size_t size) {
  return posix_memalign(pointer, 256, size ? size : 1) == 0 ? C_SUCCESS : C_FAILED;
}

C_Status deallocate_host(const C_Device, void *pointer, size_t) {
  free(pointer);
  return C_SUCCESS;
}

C_Status synchronize(const C_Device device) {
  return allowed(SIM_SYNCHRONIZE, place(device)) ? C_SUCCESS : C_FAILED;
}

// Every call is done when it returns, so streams and events are only handles that are not null.
template <typename Handle>
C_Status create(const C_Device, Handle *handle) {
  *handle = reinterpret_cast<Handle>(new char);
  return C_SUCCESS;
}

template <typename Handle>
C_Status destroy(const C_Device, Handle handle) {
  delete reinterpret_cast<char *>(handle);
  return C_SUCCESS;
}

C_Status synchronize_stream(const C_Device device, C_Stream) { return synchronize(device); }
C_Status synchronize_event(const C_Device device, C_Event) { return synchronize(device); }
C_Status query_stream(const C_Device, C_Stream) { return C_SUCCESS; }
C_Status query_event(const C_Device, C_Event) { return C_SUCCESS; }
C_Status record_event(const C_Device, C_Stream, C_Event) { return C_SUCCESS; }
C_Status stream_wait_event(const C_Device, C_Stream, C_Event) { return C_SUCCESS; }

C_Status add_callback(const C_Device device, C_Stream stream, C_Callback callback, void *data) {
  C_Status status = C_SUCCESS;
  callback(device, stream, data, &status);
  return status;
}

C_Status device_count(size_t *count) {
  *count = visible.size();
  return C_SUCCESS;
}

C_Status device_list(size_t *list) {
  for (size_t i = 0; i < visible.size(); i++) list[i] = i;
  return C_SUCCESS;
}

C_Status memory_stats(const C_Device device, size_t *total, size_t *unused) {
  const uint64_t where = place(device);
  sim_lock(farm);
  sim_sweep(farm);
  *total = farm->device[where].total;
  *unused = sim_free(farm, where);
  sim_unlock(farm);
  return C_SUCCESS;
}

C_Status minimum_chunk(const C_Device, size_t *size) {
  *size = 256;  // the alignment that cudaMalloc promises; Paddle rounds sizes up to it
  return C_SUCCESS;
}

// Paddle's buddy allocator (FLAGS_use_system_allocator=1) passes on to us what is larger than this, and its release
// too; that is everything. Without this answer it takes 92 % of the device at once and keeps it.
C_Status maximum_chunk(const C_Device, size_t *size) {
  *size = 1;
  return C_SUCCESS;
}

C_Status supported(const C_Device, bool *answer) {
  *answer = true;
  return C_SUCCESS;
}

C_Status some_number(const C_Device, size_t *number) {
  *number = 90;  // compute capability 9.0, as an H100 has
  return C_SUCCESS;
}

C_Status nothing() { return C_SUCCESS; }

// What CUDA makes of the variable: indices and (abbreviated) UUIDs up to the first that it does not know, and nothing
// at all where one stands twice (CUDA Programming Guide, "CUDA Environment Variables").
void read_visible() {
  const char *text = getenv("CUDA_VISIBLE_DEVICES");
  for (uint64_t i = 0; text == nullptr && i < farm->devices; i++) {
    if (farm->device[i].mig_parent < 0 && !farm->device[i].mig) visible.push_back(i);
  }
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string token = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    token.erase(0, token.find_first_not_of(" \t"));
    token.erase(token.find_last_not_of(" \t") + 1);
    std::vector<uint64_t> matches;
    const bool number = !token.empty() && token.find_first_not_of("0123456789") == std::string::npos;
    for (uint64_t i = 0; i < farm->devices && !token.empty(); i++) {
      const sim_device &device = farm->device[i];
      const bool gpu = device.mig_parent < 0;
      if (number ? gpu && std::to_string(i) == token : std::string(device.uuid).rfind(token, 0) == 0) matches.push_back(i);
    }
    if (matches.size() != 1 || farm->device[matches[0]].mig) return;
    for (const uint64_t earlier : visible) {
      if (earlier == matches[0]) return visible.clear();
    }
    visible.push_back(matches[0]);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void InitPlugin(CustomRuntimeParams *params) {
  PADDLE_CUSTOM_RUNTIME_CHECK_VERSION(params);
  char why[512];
  farm = sim_attach(getenv("SIMFARM_FILE"), why, sizeof why);
  if (farm == nullptr) sim_die("the device sim_gpu cannot be used", why);
  read_visible();
  pthread_atfork(nullptr, nullptr, after_fork);

  params->device_type = const_cast<char *>("sim_gpu");
  params->sub_device_type = const_cast<char *>("v1");
  C_DeviceInterface *with = params->interface;
  with->initialize = nothing;
  with->finalize = nothing;
  with->init_device = init_device;
  with->set_device = set_device;
  with->get_device = get_device;
  with->deinit_device = deinit_device;
  with->create_stream = create<C_Stream>;
  with->destroy_stream = destroy<C_Stream>;
  with->query_stream = query_stream;
  with->stream_add_callback = add_callback;
  with->create_event = create<C_Event>;
  with->record_event = record_event;
  with->destroy_event = destroy<C_Event>;
  with->query_event = query_event;
  with->synchronize_device = synchronize;
  with->synchronize_stream = synchronize_stream;
  with->synchronize_event = synchronize_event;
  with->stream_wait_event = stream_wait_event;
  with->device_memory_allocate = allocate;
  with->device_memory_deallocate = deallocate;
  with->device_memory_set = set_memory;
  with->host_memory_allocate = allocate_host;
  with->host_memory_deallocate = deallocate_host;
  with->unified_memory_allocate = allocate_host;
  with->unified_memory_deallocate = deallocate_host;
  with->memory_copy_h2d = copy;
  with->memory_copy_d2h = copy;
  with->memory_copy_d2d = copy;
  with->memory_copy_p2p = copy_peer;
  with->async_memory_copy_h2d = copy_async;
  with->async_memory_copy_d2h = copy_async;
  with->async_memory_copy_d2d = copy_async;
  with->async_memory_copy_p2p = copy_peer_async;
  with->get_device_count = device_count;
  with->get_device_list = device_list;
  with->device_memory_stats = memory_stats;
  with->device_min_chunk_size = minimum_chunk;
  with->device_max_chunk_size = maximum_chunk;
  with->get_compute_capability = some_number;
  with->is_float16_supported = supported;
  with->is_bfloat16_supported = supported;
}
