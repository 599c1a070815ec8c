/* Makes a process's device slow and its machine sleep; loaded by LD_PRELOAD (chaos/shim.py).
 *
 * The file that EPOCHMQ_SHIM names is mapped: whoever writes its numbers changes what happens from
 * then on. CLOCK_MONOTONIC does not count the time that a machine was suspended; CLOCK_BOOTTIME and
 * the wall clock do. Instants that the process computed from its CLOCK_MONOTONIC are translated back
 * before the kernel waits for them: else each timed wait, the interpreter lock's too, would end at
 * once, and the threads of a process that was suspended would spin for the rest of its life.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t suspended_ns;  /* taken from CLOCK_MONOTONIC */
    volatile int64_t sync_delay_ns; /* before each sync of a file */
};

static struct control *control;
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_cond_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem_wait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_sleep)(clockid_t, int, const struct timespec *, struct timespec *);

#define WALL_S 1000000000 /* seconds since 1970 are more, seconds since the machine's start fewer */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("EPOCHMQ_SHIM");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = MAP_FAILED;
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    /* x86-64 has an older function of this name, which dlsym may find. */
    real_cond_wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_cond_wait)
        real_cond_wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real_sem_wait = dlsym(RTLD_NEXT, "sem_clockwait");
    real_sleep = dlsym(RTLD_NEXT, "clock_nanosleep");
    if (fd >= 0) {
        map = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
    }
    control = map == MAP_FAILED ? NULL : map;
}

static void delay(void)
{
    int64_t wait = control ? control->sync_delay_ns : 0;
    struct timespec time = {wait / 1000000000, wait % 1000000000};
    if (wait)
        nanosleep(&time, NULL);
}

int fsync(int fd)
{
    delay();
    return real_fsync(fd);
}

int fdatasync(int fd)
{
    delay();
    return real_fdatasync(fd);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed = real_gettime ? real_gettime(clock, time) : -1;
    if (!failed && control && clock == CLOCK_MONOTONIC && control->suspended_ns) {
        int64_t now = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec - control->suspended_ns;
        time->tv_sec = now / 1000000000;
        time->tv_nsec = now % 1000000000;
    }
    return failed;
}

/* The kernel's instant of what the process computed from its own CLOCK_MONOTONIC. */
static struct timespec kernels(const struct timespec *until)
{
    struct timespec found = *until;
    if (control && found.tv_sec < WALL_S) {
        int64_t at = (int64_t)found.tv_sec * 1000000000 + found.tv_nsec + control->suspended_ns;
        found.tv_sec = at / 1000000000;
        found.tv_nsec = at % 1000000000;
    }
    return found;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    struct timespec at = kernels(until);
    return real_cond_wait(cond, mutex, &at);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    struct timespec at = kernels(until);
    return real_sem_wait(semaphore, clock, &at);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest)
{
    struct timespec at = *time;
    if (flags & TIMER_ABSTIME)
        at = kernels(time);
    return real_sleep(clock, flags, &at, rest);
}
