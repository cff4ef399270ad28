/* A stand-in for libnvidia-ml.so.1: the calls of NVML that nvidia-ml-py is asked for, answered from the farm's file.
 *
 * Signatures and numbers are those of the NVML API reference (https://docs.nvidia.com/deploy/nvml-api/). A handle is
 * the address of the device in the mapped file. A fault's `call` is the function's name without its _v2 or _v3.
 */
#include "sim_state.h"

typedef int nvmlReturn_t;
typedef sim_device *nvmlDevice_t;

enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_RESET_REQUIRED = 16,
  NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
  NVML_ERROR_UNKNOWN = 999,
};

typedef struct {
  unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
  unsigned int version;
  unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
  unsigned int pid;
  unsigned long long usedGpuMemory;
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
} nvmlProcessInfo_t;

static sim_state *farm;
static int users; /* nvmlInit less nvmlShutdown */

static int64_t place(nvmlDevice_t device) { return device == NULL ? -1 : (int64_t)(device - farm->device); }

/* What every call does first: be initialised, and let a fault have its way. */
static nvmlReturn_t enter(const char *call, nvmlDevice_t device) {
  if (__atomic_load_n(&users, __ATOMIC_ACQUIRE) == 0) return NVML_ERROR_UNINITIALIZED;
  const sim_fault fault = sim_fault_at(farm, SIM_NVML, place(device), call);
  if (fault.action == SIM_HANG) sim_sleep(fault.milliseconds);
  return fault.action == SIM_FAIL ? (nvmlReturn_t)fault.code : NVML_SUCCESS;
}

#define ENTER(call, device)                       \
  do {                                            \
    const nvmlReturn_t code = enter(call, device); \
    if (code != NVML_SUCCESS) return code;        \
  } while (0)

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&once);
  if (farm == NULL) {
    char why[512];
    farm = sim_attach(getenv("SIMFARM_FILE"), why, sizeof why);
    if (farm == NULL) fprintf(stderr, "simulated NVML: %s\n", why);
  }
  if (farm != NULL) __atomic_add_fetch(&users, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&once);
  if (farm == NULL) return NVML_ERROR_DRIVER_NOT_LOADED;
  const nvmlReturn_t code = enter("nvmlInit", NULL);
  if (code != NVML_SUCCESS) __atomic_sub_fetch(&users, 1, __ATOMIC_RELEASE);
  return code;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
  ENTER("nvmlShutdown", NULL);
  __atomic_sub_fetch(&users, 1, __ATOMIC_RELEASE);
  return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case NVML_SUCCESS: return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires restart";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}

static nvmlReturn_t text(char *to, unsigned int room, const char *from) {
  if (strlen(from) >= room) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(to, from);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int room) {
  ENTER("nvmlSystemGetDriverVersion", NULL);
  return text(version, room, "570.0.simulated");
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
  ENTER("nvmlDeviceGetCount", NULL);
  *count = 0;
  for (uint64_t i = 0; i < farm->devices; i++) *count += farm->device[i].mig_parent < 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle) {
  /* GPUs stand in front of MIG instances, so the place is the index. */
  if (__atomic_load_n(&users, __ATOMIC_ACQUIRE) == 0) return NVML_ERROR_UNINITIALIZED;
  if (index >= farm->devices || farm->device[index].mig_parent >= 0) return NVML_ERROR_INVALID_ARGUMENT;
  ENTER("nvmlDeviceGetHandleByIndex", &farm->device[index]);
  *handle = &farm->device[index];
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle) {
  if (__atomic_load_n(&users, __ATOMIC_ACQUIRE) == 0) return NVML_ERROR_UNINITIALIZED;
  for (uint64_t i = 0; i < farm->devices; i++) {
    if (strcmp(farm->device[i].uuid, uuid) != 0) continue;
    ENTER("nvmlDeviceGetHandleByUUID", &farm->device[i]);
    *handle = &farm->device[i];
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
  ENTER("nvmlDeviceGetIndex", device);
  *index = (unsigned int)place(device);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int room) {
  ENTER("nvmlDeviceGetUUID", device);
  return text(uuid, room, device->uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int room) {
  ENTER("nvmlDeviceGetName", device);
  return text(name, room, device->name);
}

static nvmlReturn_t memory_of(nvmlDevice_t device, unsigned long long *total, unsigned long long *unused) {
  ENTER("nvmlDeviceGetMemoryInfo", device);
  if (device->mig) return NVML_ERROR_NO_PERMISSION; /* only its instances can be asked without privileges */
  sim_lock(farm);
  sim_sweep(farm);
  *total = device->total;
  *unused = sim_free(farm, (uint64_t)place(device));
  sim_unlock(farm);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  const nvmlReturn_t code = memory_of(device, &memory->total, &memory->free);
  if (code == NVML_SUCCESS) memory->used = memory->total - memory->free;
  return code;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  const nvmlReturn_t code = memory_of(device, &memory->total, &memory->free);
  memory->reserved = 0;
  if (code == NVML_SUCCESS) memory->used = memory->total - memory->free;
  return code;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *processes) {
  ENTER("nvmlDeviceGetComputeRunningProcesses", device);
  if (device->mig) return NVML_ERROR_NO_PERMISSION;
  const uint64_t where = (uint64_t)place(device);
  const unsigned int room = *count;
  unsigned int found = 0;
  sim_lock(farm);
  sim_sweep(farm);
  for (uint64_t i = 0; i < farm->processes_top; i++) {
    const sim_process *process = &farm->processes[i];
    if (process->pid == 0 || !(process->contexts >> where & 1)) continue;
    if (found < room && processes != NULL) {
      processes[found].pid = (unsigned int)process->pid;
      processes[found].usedGpuMemory = process->bytes[where];
      processes[found].gpuInstanceId = processes[found].computeInstanceId = 0xFFFFFFFF;
    }
    found++;
  }
  sim_unlock(farm);
  *count = found;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending) {
  ENTER("nvmlDeviceGetMigMode", device);
  if (device->mig_parent >= 0) return NVML_ERROR_NOT_SUPPORTED;
  *now = *pending = (unsigned int)device->mig;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
  ENTER("nvmlDeviceGetMaxMigDeviceCount", device);
  *count = device->mig ? 7 : 0; /* what an A100 or H100 can be divided into */
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *instance) {
  ENTER("nvmlDeviceGetMigDeviceHandleByIndex", device);
  for (uint64_t i = 0; i < farm->devices; i++) {
    if (farm->device[i].mig_parent != place(device) || index-- > 0) continue;
    *instance = &farm->device[i];
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance, nvmlDevice_t *device) {
  ENTER("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", instance);
  if (instance->mig_parent < 0) return NVML_ERROR_INVALID_ARGUMENT;
  *device = &farm->device[instance->mig_parent];
  return NVML_SUCCESS;
}
