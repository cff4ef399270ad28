// A Paddle custom device without hardware: memory as the file $CHIP_MEMORY says ("total free" a line for each device).
// One with 666 bytes free hangs when it is asked, one with 667 takes a second. One whose line is no numbers cannot
// tell, nor can those behind it.
#include <paddle/phi/backends/device_ext.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {
bool row(int wanted, size_t *total, size_t *free) {
  std::FILE *file = std::fopen(std::getenv("CHIP_MEMORY"), "r");
  if (file == nullptr) return false;
  bool found = false;
  for (int at = 0; at <= wanted && !found; ++at) {
    if (std::fscanf(file, "%zu %zu", total, free) != 2) break;
    found = at == wanted;
  }
  std::fclose(file);
  return found;
}

size_t count() {
  std::FILE *file = std::fopen(std::getenv("CHIP_MEMORY"), "r");
  size_t found = 0;
  for (int at = file == nullptr ? EOF : std::fgetc(file); at != EOF; at = std::fgetc(file)) found += at == '\n';
  if (file != nullptr) std::fclose(file);
  return found;
}

C_Status good() { return C_SUCCESS; }
C_Status get_device(const C_Device device) { device->id = 0; return C_SUCCESS; }
C_Status device_count(size_t *found) { *found = count(); return C_SUCCESS; }
C_Status device_list(size_t *ids) {
  for (size_t at = 0; at < count(); ++at) ids[at] = at;
  return C_SUCCESS;
}
C_Status stats(const C_Device device, size_t *total, size_t *free) {
  if (!row(device->id, total, free)) return C_FAILED;
  if (*free == 666) sleep(600);
  if (*free == 667) sleep(1);
  return C_SUCCESS;
}
C_Status size(const C_Device, size_t *bytes) { *bytes = 256; return C_SUCCESS; }
}  // namespace

extern "C" __attribute__((visibility("default"))) void InitPlugin(CustomRuntimeParams *params) {
  PADDLE_CUSTOM_RUNTIME_CHECK_VERSION(params);
  params->device_type = const_cast<char *>("chip");
  params->sub_device_type = const_cast<char *>("v1");
  C_DeviceInterface *with = params->interface;
  // Paddle takes no plug-in that leaves out what it calls required. Nothing here computes, so all of it may say "done".
  auto *slot = reinterpret_cast<C_Status (**)()>(reinterpret_cast<char *>(with) + sizeof(size_t));
  for (size_t at = 0; at < (sizeof *with - sizeof(size_t)) / sizeof *slot; ++at) slot[at] = good;
  with->get_device = get_device;
  with->get_device_count = device_count;
  with->get_device_list = device_list;
  with->device_memory_stats = stats;
  with->device_min_chunk_size = size;
}
