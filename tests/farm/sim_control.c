/* What the Python side and its programs call of the farm; the structures themselves they read as layout.py has them. */
#include "sim_state.h"

/* Make the file. 0, or an errno. The devices are filled in by the caller, before anybody else attaches. */
int simfarm_create(const char *path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  if (ftruncate(fd, sizeof(sim_state)) != 0) {
    const int error = errno;
    close(fd);
    return error;
  }
  sim_state *state = (sim_state *)mmap(NULL, sizeof(sim_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (state == MAP_FAILED) return errno;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&state->lock.mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  state->version = SIM_VERSION;
  state->size = sizeof(sim_state);
  __atomic_store_n(&state->magic, SIM_MAGIC, __ATOMIC_RELEASE);
  munmap(state, sizeof(sim_state));
  return 0;
}

sim_state *simfarm_attach(const char *path, char *why, size_t room) { return sim_attach(path, why, room); }
void simfarm_detach(sim_state *state) { munmap(state, sizeof(sim_state)); }
void simfarm_lock(sim_state *state) { sim_lock(state); }
void simfarm_unlock(sim_state *state) { sim_unlock(state); }

/* With the lock held: */
void simfarm_sweep(sim_state *state) { sim_sweep(state); }
uint64_t simfarm_used(const sim_state *state, uint64_t device) { return sim_used(state, device); }

/* Takes the lock: bytes of a device for the calling process, without memory behind them; 0 where they do not fit. */
int simfarm_take(sim_state *state, uint64_t device, uint64_t bytes) {
  sim_lock(state);
  sim_process *own = sim_own(state);
  own->contexts |= 1ULL << device;
  const int fits = sim_take(state, own, device, bytes);
  sim_unlock(state);
  return fits;
}

void simfarm_give(sim_state *state, uint64_t device, uint64_t bytes) {
  sim_lock(state);
  sim_give(state, sim_own(state), device, bytes);
  sim_unlock(state);
}

/* The action of a fault for a fake tool; for a hang, it returns afterwards. */
uint32_t simfarm_tool(sim_state *state, const char *tool) {
  const sim_fault fault = sim_fault_at(state, SIM_TOOL, -1, tool);
  if (fault.action == SIM_HANG) sim_sleep(fault.milliseconds);
  return fault.action;
}
