/* The floor: one thread, one epoll loop, and the native code's own parts; no Python, no limits, no
 * replicas, no clients but the load generator. What a broker in C would spend on the same sends with
 * the same bytes on disk: records by pwrite to one log, 20-byte units by pwrite to each queue's file.
 *
 *     floor PORT FOLDER      serves single sends (code 310) to BenchTopic, 4 queues
 *
 * Compiled and run by bench/floor.py; a unity build, so that the send turn of send.c is in reach.
 */
#define _GNU_SOURCE
#include "send.c"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { QUEUES = 4, EVENTS = 512, CONNS = 4096, READ = 256 << 10, KEPT = 64 << 10 };
enum { MESSAGES = 8192, BYTES = 8 << 20 };
#define LOG_BYTES (1LL << 30)

typedef struct {
    uint8_t kept[KEPT]; /* half a frame */
    int64_t size;
} half;

static send_turn D;
static half *halves[CONNS];
static uint8_t buffer[READ + KEPT];
static int readers[EVENTS * 2]; /* whose frames were taken, read by read */
static int log_fd, unit_fds[QUEUES];
static int64_t log_end, queue_ends[QUEUES];
static const char *folder;
static int files;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int create(const char *name, int64_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_RDWR, 0644);
    if (fd < 0 || (size && posix_fallocate(fd, 0, size)))
        fail(path);
    return fd;
}

static void next_log(void)
{
    char name[32];
    if (log_fd)
        close(log_fd);
    snprintf(name, sizeof name, "%020lld", (long long)(files++ * LOG_BYTES));
    log_fd = create(name, LOG_BYTES);
    log_end = 0;
}

static void put_all(int fd, const uint8_t *at, int64_t size, int64_t where)
{
    if (pwrite(fd, at, (size_t)size, where) != size)
        fail("pwrite");
}

static void setup(void)
{
    static const uint8_t host[] = {127, 0, 0, 1, 0, 0, 0x2A, 0x9F};
    static const char tail[] = "\x02" "CLUSTER\x01" "DefaultCluster";
    static const char middle[] = "\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":";
    static const char end[] = ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":435}";
    D.tail = (span){(const uint8_t *)tail, sizeof tail - 1};
    D.host = (span){host, sizeof host};
    D.id = (span){(const uint8_t *)"7F00000100002A9F", 16};
    D.middle = (span){(const uint8_t *)middle, sizeof middle - 1};
    D.end = (span){(const uint8_t *)end, sizeof end - 1};
    D.header_max = 65536;
    D.body_max = D.record_max = 4 << 20;
    D.out = malloc(BYTES), D.out_max = BYTES;
    D.singles = malloc(MESSAGES * sizeof(single)), D.singles_max = MESSAGES;
    D.keys = malloc(2 * MESSAGES * sizeof(index_key)), D.keys_max = 2 * MESSAGES;
    D.slots = malloc(QUEUES * sizeof(slot)), D.slots_max = QUEUES;
    D.touched = malloc(QUEUES * sizeof(int32_t));
    D.units = malloc(MESSAGES * UNIT_BYTES);
    D.answers = malloc(BYTES), D.answers_max = BYTES;
    D.ends = malloc(MESSAGES * sizeof(int64_t));
    span hashed = {(const uint8_t *)"BenchTopic#", 11};
    epq_send_topics_clear(&D);
    if (epq_send_topic_add(&D, (const uint8_t *)"BenchTopic", 10, QUEUES, 0, hash_utf8(0, hashed)) < 0)
        fail("send_topic");
    for (int n = 0; n < QUEUES; n++) {
        char name[16];
        snprintf(name, sizeof name, "queue%d", n);
        unit_fds[n] = create(name, 0);
    }
    next_log();
}

static void end_of_turn(void)
{
    struct timespec now;
    if (!D.count)
        return;
    if (log_end + D.out_size > LOG_BYTES)
        next_log();
    for (int64_t n = 0; n < D.touched_count; n++)
        D.slots[D.touched[n]].next = queue_ends[D.touched[n]] / UNIT_BYTES;
    clock_gettime(CLOCK_REALTIME, &now);
    if (epq_finish(&D, (files - 1) * LOG_BYTES + log_end,
                   now.tv_sec * 1000 + now.tv_nsec / 1000000) < 0)
        fail("answers do not fit");
    put_all(log_fd, D.out, D.out_size, log_end);
    log_end += D.out_size;
    for (int64_t n = 0; n < D.touched_count; n++) {
        int32_t at = D.touched[n];
        int64_t size = D.slots[at].count * UNIT_BYTES;
        put_all(unit_fds[at], D.units + D.slots[at].unit, size, queue_ends[at]);
        queue_ends[at] += size;
    }
    for (int64_t n = 0, from = 0; n < D.reads; from = D.ends[n++]) {
        size_t size = (size_t)(D.ends[n] - from);
        if (send(readers[n], D.answers + from, size, MSG_NOSIGNAL) != (ssize_t)size &&
            errno != EPIPE && errno != ECONNRESET && errno != EBADF)
            fail("send");
    }
    epq_clear(&D);
}

static void gone(int fd)
{
    close(fd);
    halves[fd]->size = 0;
}

static void readable(int fd)
{
    static const uint8_t born[] = {127, 0, 0, 1, 0, 0, 0x9C, 0x40};
    half *h = halves[fd];
    memcpy(buffer, h->kept, (size_t)h->size);
    ssize_t got = recv(fd, buffer + h->size, READ, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            gone(fd);
        return;
    }
    int64_t size = h->size + got, reads = D.reads, taken = epq_take(&D, buffer, size, born);
    if (D.reads > reads)
        readers[reads] = fd;
    h->size = size - taken;
    if (h->size > KEPT || (!taken && size >= 8 && get32(buffer) + 4 <= size)) {
        fprintf(stderr, "floor: a frame that is no ordinary send\n");
        gone(fd);
        return;
    }
    memcpy(h->kept, buffer + taken, (size_t)h->size);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS], one = {.events = EPOLLIN};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poll = epoll_create1(0);
    if (argc != 3)
        return fprintf(stderr, "usage: floor PORT FOLDER\n"), 2;
    folder = argv[2];
    signal(SIGPIPE, SIG_IGN);
    crc_init();
    setup();
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024))
        fail("listen");
    one.data.fd = listener;
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &one);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(poll, events, EVENTS, -1);
        for (int n = 0; n < count; n++) {
            int fd = events[n].data.fd;
            if (fd != listener) {
                readable(fd);
                continue;
            }
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                if (fd >= CONNS)
                    fail("too many connections");
                if (!halves[fd] && !(halves[fd] = calloc(1, sizeof(half))))
                    fail("memory");
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                one.data.fd = fd;
                epoll_ctl(poll, EPOLL_CTL_ADD, fd, &one);
            }
        }
        end_of_turn();
    }
}
