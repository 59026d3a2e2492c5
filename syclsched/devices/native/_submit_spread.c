/* SPDX-License-Identifier: Apache-2.0
 *
 * Thread placement: moves a computing thread that shares its core to the core of a caller that is about to sleep.
 *
 * Computing threads are woken while the caller still submits: no core is idle, and two threads may share one. Once the
 * caller sleeps its core is idle, but Linux may leave it idle: it pulls threads to a newly idle core only if that was
 * quick lately, or else at a later tick of 4 ms. A small model has ended before that, on one core of two.
 *
 * Intel's OpenCL runtime binds its workers to cores 1, 2, ..., also while they compute for others that share them. A
 * thread that waits for kernels computes, too, and shares a worker's core if it wakes up there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "_submit.h"

/* TURN: checks between two listings of the threads. REST: runs between two checks, which take some 70 us each, unless a
 * run got less than LESS percent of the processor time per second of others. USED_NS: least processor time of a
 * computing thread in a run. COMPUTING: with more computing threads the check does not pay. */
enum { TURN = 32, REST = 7, LESS = 85, THREADS = 256, COMPUTING = 16, USED_NS = 100000 };

struct seen {
    pid_t id;
    int64_t used_ns; /* processor time when it was listed */
};

struct spread {
    int64_t looks, rest, count;
    int64_t begun_ns, begun_used_ns; /* start of the run: time, and processor time of the process */
    double most;                     /* highest processor time per second of recent runs */
    int is_kept_off;                 /* whether the waiting thread keeps off cores that others are bound to */
    struct seen threads[THREADS];
};

int32_t syclsched_thread_id(void)
{
    return (int32_t)syscall(SYS_gettid); /* older C libraries have no gettid() */
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (int64_t)now.tv_sec * 1000000000 + now.tv_nsec : -1;
}

static int64_t used_ns(pid_t id)
{
    return clock_ns((clockid_t)(~(unsigned)id << 3 | 6)); /* the kernel's encoding of a thread's clock */
}

/* Return the core a thread runs on or is queued for; -1 if it sleeps or has ended. */
static int core_of(pid_t id)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)id);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    if (length <= 0)
        return -1;
    text[length] = 0;
    char *at = strrchr(text, ')'); /* end of the thread's name, which may contain any character */
    if (!at || strncmp(at, ") R ", 4) != 0)
        return -1;
    for (int field = 2; at && field < 39; ++field)
        at = strchr(at + 1, ' ');
    return at ? atoi(at) : -1;
}

static void list_all(struct spread *spread)
{
    DIR *folder = opendir("/proc/self/task");
    spread->count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)) && spread->count < THREADS;) {
        pid_t id = atoi(entry->d_name);
        if (id > 0 && id != syclsched_thread_id())
            spread->threads[spread->count++] = (struct seen){id, used_ns(id)};
    }
    if (folder)
        closedir(folder);
}

static void keep_computing(struct spread *spread)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < spread->count; ++i)
        if (used_ns(spread->threads[i].id) - spread->threads[i].used_ns >= USED_NS)
            spread->threads[kept++] = spread->threads[i];
    spread->count = kept <= COMPUTING ? kept : 0;
}

/* Held while affinities are changed for a moment, and read: several callers may move the same threads. */
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER;

/* Move a thread to a core, then restore its affinity. */
static int move(pid_t id, int core)
{
    cpu_set_t allowed, only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    pthread_mutex_lock(&moving);
    int moved = sched_getaffinity(id, sizeof allowed, &allowed) == 0 && CPU_ISSET(core, &allowed) &&
                sched_setaffinity(id, sizeof only, &only) == 0;
    if (moved)
        sched_setaffinity(id, sizeof allowed, &allowed);
    pthread_mutex_unlock(&moving);
    return moved;
}

/* Let the waiting thread, if it computes, keep off the cores that other computing threads are bound to. */
static void keep_off(struct spread *spread, pid_t waiting)
{
    cpu_set_t all, rest, only;
    int computes = 0;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    rest = all;
    pthread_mutex_lock(&moving);
    for (int64_t i = 0; i < spread->count; ++i)
        if (spread->threads[i].id == waiting)
            computes = 1;
        else if (sched_getaffinity(spread->threads[i].id, sizeof only, &only) == 0 && CPU_COUNT(&only) == 1)
            for (int core = 0; core < CPU_SETSIZE; ++core)
                if (CPU_ISSET(core, &only))
                    CPU_CLR(core, &rest);
    pthread_mutex_unlock(&moving);
    int keeps_off = computes && CPU_COUNT(&rest) && !CPU_EQUAL(&rest, &all);
    if (keeps_off || spread->is_kept_off)
        sched_setaffinity(waiting, sizeof all, keeps_off ? &rest : &all);
    spread->is_kept_off = keeps_off;
}

/* If computing threads share a core, and none is on the caller's, move one of them to the caller's core. */
static int32_t look(struct spread *spread, int32_t except)
{
    int here = sched_getcpu(), cores[COMPUTING];
    cpu_set_t taken, shared;
    CPU_ZERO(&taken);
    CPU_ZERO(&shared);
    for (int64_t i = 0; i < spread->count; ++i) {
        pid_t id = spread->threads[i].id;
        int core = cores[i] = id == except ? -1 : core_of(id);
        if (core == here)
            return 0;
        if (core < 0 || core >= CPU_SETSIZE)
            continue;
        if (CPU_ISSET(core, &taken))
            CPU_SET(core, &shared);
        CPU_SET(core, &taken);
    }
    for (int64_t i = 0; here >= 0 && i < spread->count; ++i)
        if (cores[i] >= 0 && cores[i] < CPU_SETSIZE && CPU_ISSET(cores[i], &shared) && move(spread->threads[i].id, here))
            return 1;
    return 0;
}

/* Called once in a run by the thread that is about to wait for it. The thread `except`, which waits for the devices, is
 * never moved. Returns 1 if a thread was moved, 0 if not, and -1 if nothing was checked. */
int32_t syclsched_spread(struct spread *spread, int32_t except)
{
    int32_t found = -1;
    if (spread->rest > 0)
        --spread->rest;
    else {
        int64_t turn = spread->looks++ % TURN;
        if (turn == 0)
            list_all(spread);
        else if (turn == 1)
            keep_computing(spread), keep_off(spread, except);
        else if ((found = look(spread, except)) == 0)
            spread->rest = REST;
    }
    spread->begun_ns = syclsched_now_ns();
    spread->begun_used_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    return found;
}

/* Called when the run has ended. */
void syclsched_spread_end(struct spread *spread)
{
    int64_t took_ns = syclsched_now_ns() - spread->begun_ns;
    double used = took_ns > 0 ? (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - spread->begun_used_ns) / (double)took_ns : 0;
    if (100 * used < LESS * spread->most)
        spread->rest = 0;
    spread->most = used > 0.99 * spread->most ? used : 0.99 * spread->most;
}

/* Return the state that is kept from run to run, or null if out of memory. */
struct spread *syclsched_spread_new(void)
{
    return calloc(1, sizeof(struct spread));
}

void syclsched_spread_delete(struct spread *spread)
{
    free(spread);
}
