/* A page of a mapped file that cannot be read is SIGBUS, which ends the process: the device has lost
 * it, or somebody has shortened the file. Here such a page of a guarded map becomes one of zeros, and is
 * counted; who reads the map looks at the count, and then at the file by other means. A SIGBUS
 * elsewhere goes to whoever handled it before. (As journald of systemd does it.)
 */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "native.h"

enum { RANGES_MAX = 4096 };

static struct {
    volatile uintptr_t start; /* 0: free */
    volatile uintptr_t end;
} ranges[RANGES_MAX];
static volatile int64_t *faults;
static uintptr_t page_bytes;
static struct sigaction before;

static void on_bus(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)number;
    (void)context;
    for (int n = 0; n < RANGES_MAX; n++)
        if (ranges[n].start && at >= ranges[n].start && at < ranges[n].end) {
            void *page = (void *)(at & ~(page_bytes - 1)); /* NOLINT */
            if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                MAP_FAILED)
                break;
            ++*faults;
            return;
        }
    sigaction(SIGBUS, &before, NULL); /* the access is repeated, and ends as it would have */
}

/* Count into `count` from now on; 0 when that cannot be. */
int64_t epq_guard_begin(int64_t *count)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    faults = count;
    return sigaction(SIGBUS, &action, &before) == 0;
}

/* Guard the `size` bytes at `start`; 0 when there is no room. */
int64_t epq_guard_add(const uint8_t *start, int64_t size)
{
    for (int n = 0; n < RANGES_MAX; n++)
        if (!ranges[n].start) {
            ranges[n].end = (uintptr_t)start + (uintptr_t)size;
            ranges[n].start = (uintptr_t)start;
            return 1;
        }
    return 0;
}

void epq_guard_remove(const uint8_t *start)
{
    for (int n = 0; n < RANGES_MAX; n++)
        if (ranges[n].start == (uintptr_t)start)
            ranges[n].start = 0;
}
