/* The state of a simulated GPU farm: one shared, mapped file of fixed layout.
 *
 * Everybody maps it: the Paddle custom device, the stand-in for NVML, and (through sim_control.c) the Python side,
 * whose layout.py describes the same structures and checks their size.
 *
 * Any holder may be killed at any instant. So the mutex is a robust one, and there is nothing to repair behind a
 * dead holder: what a process holds stands in its own entry and nowhere else, every change of it is one eight-byte
 * store, and sums are made when they are asked for.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SIM_MAGIC 0x4d5241464d495321ULL
#define SIM_VERSION 1
#define SIM_DEVICES 32     /* devices and MIG instances together */
#define SIM_PROCESSES 512  /* processes that hold something at one time */
#define SIM_FAULTS 64      /* rules at one time */
#define SIM_RELEASES 1024  /* sizes on their way back, per device; beyond that they are merged */
#define SIM_REFUSALS 256   /* the latest refusals that are kept, per device */
#define SIM_TEXT 96        /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
#define SIM_CALL 64

/* Where a fault may strike, and what it does there. layout.py has the same numbers. */
enum sim_event { SIM_INIT = 1, SIM_ALLOCATE, SIM_COPY, SIM_SYNCHRONIZE, SIM_NVML, SIM_TOOL };
enum sim_action { SIM_NOTHING = 0, SIM_REFUSE, SIM_ABORT, SIM_SEGFAULT, SIM_HANG, SIM_FAIL, SIM_GARBAGE, SIM_CORRUPT };

typedef struct {
  uint64_t until_ns; /* CLOCK_MONOTONIC */
  uint64_t bytes;    /* 0: the place is free */
} sim_release;

typedef struct {
  uint64_t at_ns;
  uint64_t bytes;
  uint64_t free; /* what was free at that moment */
  uint32_t pid;
  uint32_t injected; /* 1: there was room, a fault refused */
} sim_refusal;

typedef struct {
  char uuid[SIM_TEXT];
  char name[SIM_TEXT];
  uint64_t total;
  uint64_t context; /* bytes that a process takes by preparing the device */
  uint64_t foreign; /* bytes of somebody who is not listed */
  uint64_t release_ns; /* what is given back is seen free so much later */
  uint64_t peak;
  uint64_t allocations;
  uint64_t frees;
  uint64_t copies;
  uint64_t refused;
  int64_t mig_parent; /* -1: a GPU; else this is a MIG instance of that GPU */
  uint64_t mig;       /* 1: a GPU with MIG enabled, usable through its instances only */
  uint64_t releases_top;
  sim_release releases[SIM_RELEASES];
  sim_refusal refusals[SIM_REFUSALS];
} sim_device;

typedef struct {
  uint64_t pid;      /* 0: the entry is free; written last */
  uint64_t started;  /* field 22 of /proc/<pid>/stat */
  uint64_t contexts; /* one bit a device */
  uint64_t bytes[SIM_DEVICES]; /* contexts included */
} sim_process;

typedef struct {
  uint64_t generation; /* 0: no rule */
  uint32_t event;
  uint32_t action;
  int64_t device; /* -1: any */
  uint64_t pid;   /* 0: any */
  uint64_t nth;   /* strikes from the n-th event on that fits */
  uint64_t times; /* how often; 0: for ever */
  uint64_t per_process; /* 1: each process counts for itself */
  double probability; /* below 1: by chance, decided by seed and number of the event */
  uint64_t seed;
  int64_t code; /* error code, for SIM_FAIL */
  uint64_t milliseconds; /* for SIM_HANG; 0: for ever */
  uint64_t seen;
  uint64_t fired;
  char call[SIM_CALL]; /* NVML function or tool; empty: any */
} sim_fault;

typedef struct {
  uint64_t magic;
  uint64_t version;
  uint64_t size; /* of this structure, so that a file of another build is refused */
  uint64_t devices;
  union {
    pthread_mutex_t mutex;
    uint64_t room[16];
  } lock;
  uint64_t processes_top;
  uint64_t faults_top;
  uint64_t generation; /* of the latest rule */
  sim_fault faults[SIM_FAULTS];
  sim_process processes[SIM_PROCESSES];
  sim_device device[SIM_DEVICES];
} sim_state;

/* Errors end here: a simulation that goes on with a wrong state would make tests lie. */
static inline void sim_die(const char *what, const char *why) {
  fprintf(stderr, "simulated GPU farm: %s: %s\n", what, why);
  abort();
}

static inline uint64_t sim_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static inline void sim_sleep(uint64_t milliseconds) {
  const uint64_t end = sim_now() + milliseconds * 1000000ULL;
  while (milliseconds == 0 || sim_now() < end) {
    struct timespec pause = {0, 10000000};
    nanosleep(&pause, NULL);
  }
}

/* Map the file; NULL with a reason where that cannot be. */
static inline sim_state *sim_attach(const char *path, char *why, size_t room) {
  if (path == NULL || *path == '\0') {
    snprintf(why, room, "SIMFARM_FILE is not set: it names the file of the farm");
    return NULL;
  }
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    snprintf(why, room, "%s: %s", path, strerror(errno));
    return NULL;
  }
  struct stat status;
  if (fstat(fd, &status) != 0 || (uint64_t)status.st_size != sizeof(sim_state)) {
    close(fd);
    snprintf(why, room, "%s is not the state of a farm: it is not %zu bytes long", path, sizeof(sim_state));
    return NULL;
  }
  sim_state *state = (sim_state *)mmap(NULL, sizeof(sim_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (state == MAP_FAILED) {
    snprintf(why, room, "%s: %s", path, strerror(errno));
    return NULL;
  }
  if (state->magic != SIM_MAGIC || state->version != SIM_VERSION || state->size != sizeof(sim_state)) {
    snprintf(why, room, "%s has version %llu and says %llu bytes; this build wants version %d and %zu bytes", path,
             (unsigned long long)state->version, (unsigned long long)state->size, SIM_VERSION, sizeof(sim_state));
    munmap(state, sizeof(sim_state));
    return NULL;
  }
  return state;
}

static inline void sim_lock(sim_state *state) {
  const int error = pthread_mutex_lock(&state->lock.mutex);
  if (error == EOWNERDEAD) {
    pthread_mutex_consistent(&state->lock.mutex);
  } else if (error != 0) {
    sim_die("the lock of the farm cannot be taken", strerror(error));
  }
}

static inline void sim_unlock(sim_state *state) { pthread_mutex_unlock(&state->lock.mutex); }

#define SIM_UNKNOWN UINT64_MAX

/* The start time of a process in clock ticks since boot; 0 where it is dead or a zombie, SIM_UNKNOWN where that cannot
 * be found out (no file descriptor left, say): then it counts as alive. */
static inline uint64_t sim_started(uint64_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : SIM_UNKNOWN;
  const ssize_t length = read(fd, text, sizeof text - 1);
  const int error = errno;
  close(fd);
  if (length < 0) return error == ESRCH ? 0 : SIM_UNKNOWN;
  text[length] = '\0';
  const char *at = strrchr(text, ')'); /* the command may hold blanks and parentheses */
  if (at == NULL || at[1] == '\0') return SIM_UNKNOWN;
  at += 2; /* field 3, the state */
  if (*at == 'Z' || *at == 'X') return 0;
  for (int field = 3; field < 22 && at != NULL; field++) at = strchr(at + 1, ' ');
  return at == NULL ? SIM_UNKNOWN : strtoull(at, NULL, 10);
}

/* Everything below wants the lock to be held. */

static inline void sim_release_later(sim_device *device, uint64_t bytes) {
  if (device->release_ns == 0 || bytes == 0) return;
  const uint64_t until = sim_now() + device->release_ns;
  uint64_t place = 0;
  while (place < device->releases_top && device->releases[place].bytes != 0) place++;
  if (place == SIM_RELEASES) { /* full: the last one takes it too, and both come back at the later time */
    place--;
    bytes += device->releases[place].bytes;
  } else if (place == device->releases_top) {
    device->releases_top++;
  }
  device->releases[place].until_ns = until;
  device->releases[place].bytes = bytes;
}

/* Drop what dead processes held, and what was on its way back long enough. */
static inline void sim_sweep(sim_state *state) {
  for (uint64_t i = 0; i < state->processes_top; i++) {
    sim_process *process = &state->processes[i];
    if (process->pid == 0) continue;
    const uint64_t started = sim_started(process->pid);
    if (started == process->started || started == SIM_UNKNOWN) continue;
    for (uint64_t d = 0; d < state->devices; d++) sim_release_later(&state->device[d], process->bytes[d]);
    process->pid = 0;
  }
  while (state->processes_top > 0 && state->processes[state->processes_top - 1].pid == 0) state->processes_top--;
  const uint64_t now = sim_now();
  for (uint64_t d = 0; d < state->devices; d++) {
    sim_device *device = &state->device[d];
    for (uint64_t i = 0; i < device->releases_top; i++) {
      if (device->releases[i].until_ns <= now) device->releases[i].bytes = 0;
    }
    while (device->releases_top > 0 && device->releases[device->releases_top - 1].bytes == 0) device->releases_top--;
  }
}

static inline uint64_t sim_used(const sim_state *state, uint64_t device) {
  uint64_t used = state->device[device].foreign;
  for (uint64_t i = 0; i < state->processes_top; i++) {
    if (state->processes[i].pid != 0) used += state->processes[i].bytes[device];
  }
  for (uint64_t i = 0; i < state->device[device].releases_top; i++) used += state->device[device].releases[i].bytes;
  return used;
}

static inline uint64_t sim_free(const sim_state *state, uint64_t device) {
  const uint64_t used = sim_used(state, device), total = state->device[device].total;
  return used < total ? total - used : 0;
}

/* The entry of the calling process. */
static inline sim_process *sim_own(sim_state *state) {
  const uint64_t pid = (uint64_t)getpid(), started = sim_started(pid);
  if (started == 0 || started == SIM_UNKNOWN) sim_die("/proc cannot be read", strerror(errno));
  sim_sweep(state);
  sim_process *found = NULL;
  for (uint64_t i = 0; i < SIM_PROCESSES; i++) {
    sim_process *process = &state->processes[i];
    if (i < state->processes_top && process->pid == pid) return process;
    if (found == NULL && (i >= state->processes_top || process->pid == 0)) found = process;
  }
  if (found == NULL) sim_die("no more processes fit into the farm", "raise SIM_PROCESSES");
  found->started = started;
  found->contexts = 0;
  memset(found->bytes, 0, sizeof found->bytes);
  const uint64_t place = (uint64_t)(found - state->processes);
  if (place >= state->processes_top) { /* in this order, or somebody would see the entry of an earlier process */
    found->pid = 0;
    __atomic_store_n(&state->processes_top, place + 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&found->pid, pid, __ATOMIC_RELEASE);
  return found;
}

static inline void sim_refused(sim_state *state, uint64_t device, uint64_t bytes, uint32_t injected) {
  sim_device *on = &state->device[device];
  sim_refusal *refusal = &on->refusals[on->refused % SIM_REFUSALS];
  refusal->at_ns = sim_now();
  refusal->bytes = bytes;
  refusal->free = sim_free(state, device);
  refusal->pid = (uint32_t)getpid();
  refusal->injected = injected;
  on->refused++;
}

/* Take bytes for a process; 0 where they do not fit, and the refusal is logged. */
static inline int sim_take(sim_state *state, sim_process *own, uint64_t device, uint64_t bytes) {
  sim_device *on = &state->device[device];
  uint64_t used = sim_used(state, device);
  if (bytes > on->total || used + bytes > on->total || used + bytes > on->peak) {
    sim_sweep(state); /* only here, because looking for the dead is slow */
    used = sim_used(state, device);
  }
  if (bytes > on->total || used + bytes > on->total) {
    sim_refused(state, device, bytes, 0);
    return 0;
  }
  __atomic_store_n(&own->bytes[device], own->bytes[device] + bytes, __ATOMIC_RELEASE);
  if (used + bytes > on->peak) on->peak = used + bytes;
  return 1;
}

static inline void sim_give(sim_state *state, sim_process *own, uint64_t device, uint64_t bytes) {
  if (bytes > own->bytes[device]) sim_die("a process gives back more than it holds", state->device[device].uuid);
  sim_release_later(&state->device[device], bytes); /* first, so that nobody sees it free too early */
  __atomic_store_n(&own->bytes[device], own->bytes[device] - bytes, __ATOMIC_RELEASE);
}

/* What each process has counted for itself, by rule; a child that was forked begins anew. */
static struct {
  uint64_t generation, seen, fired;
} sim_counted[SIM_FAULTS];

/* splitmix64 of the seed and the number of the event, as a number from 0 to 1. */
static inline double sim_chance(uint64_t seed, uint64_t number) {
  uint64_t z = seed + (number + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static inline int sim_strikes(sim_fault *rule, uint64_t place) {
  uint64_t number = ++rule->seen, done = rule->fired;
  if (rule->per_process) {
    if (sim_counted[place].generation != rule->generation) {
      memset(&sim_counted[place], 0, sizeof sim_counted[place]);
      sim_counted[place].generation = rule->generation;
    }
    number = ++sim_counted[place].seen;
    done = sim_counted[place].fired;
  }
  if (number < rule->nth || (rule->times != 0 && done >= rule->times)) return 0;
  if (rule->probability < 1.0 && sim_chance(rule->seed, number) >= rule->probability) return 0;
  rule->fired++;
  sim_counted[place].fired++;
  return 1;
}

/* The first rule that strikes at this event, copied; action SIM_NOTHING where none does. Takes the lock itself. */
static inline sim_fault sim_fault_at(sim_state *state, uint32_t event, int64_t device, const char *call) {
  sim_fault struck;
  memset(&struck, 0, sizeof struck);
  if (__atomic_load_n(&state->faults_top, __ATOMIC_ACQUIRE) == 0) return struck;
  sim_lock(state);
  for (uint64_t i = 0; i < state->faults_top; i++) {
    sim_fault *rule = &state->faults[i];
    if (rule->generation == 0 || rule->event != event) continue;
    if (rule->device >= 0 && rule->device != device) continue;
    if (rule->pid != 0 && rule->pid != (uint64_t)getpid()) continue;
    if (rule->call[0] != '\0' && (call == NULL || strncmp(rule->call, call, SIM_CALL) != 0)) continue;
    if (sim_strikes(rule, i)) {
      struck = *rule;
      break;
    }
  }
  sim_unlock(state);
  return struck;
}

#endif
