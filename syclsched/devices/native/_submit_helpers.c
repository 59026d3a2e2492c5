/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that help a calling thread to execute kernels: each takes parts of a kernel's work-groups, as the caller does.
 *
 * The caller begins at once, and a helper joins when it has woken up, which takes some 40 us. A kernel submitted to the
 * runtime waits for such a thread before it begins, and for another one before two cores compute.
 *
 * Each launch costs 1.5 us, so a thread takes several parts at a time while many are left, and single ones at the end
 * (Polychronopoulos, Kuck: Guided Self-Scheduling, IEEE Trans. Computers C-36, 1987).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "_submit.h"

struct helper {
    struct helpers *all;
    const struct lane *lanes; /* queues that execute commands on its thread */
    pthread_t thread;
    uint32_t seen; /* the last run that it has helped */
};

/* `next` tells what there is to do: the run, the index of the command, its parts, and the next part to take. Only who
 * has taken a part reads anything else of the run, which is in progress until that part is done. */
struct helpers {
    struct helper *each;
    int64_t count, begun; /* helpers, and those whose threads have begun */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int closing;
    cpu_set_t allowed;
    int off; /* the core that helpers keep off, the caller's of their last run; -1 if none */
    uint32_t run;
    const struct command *const *commands;
    uint64_t next;
    int32_t done;    /* parts of this command */
    int32_t refused; /* what the first part that was refused returned */
};

enum { NONE = 0xFFFF }; /* instead of a command, once the run is over */

static uint64_t word(uint32_t run, int64_t command, int64_t parts)
{
    return (uint64_t)run << 32 | (uint64_t)command << 16 | (uint64_t)parts << 8;
}

static uint32_t run_of(uint64_t next)
{
    return (uint32_t)(next >> 32);
}

static int64_t command_of(uint64_t next)
{
    return next >> 16 & 0xFFFF;
}

static int64_t parts_of(uint64_t next)
{
    return next >> 8 & 0xFF;
}

static int64_t part_of(uint64_t next)
{
    return next & 0xFF;
}

/* Take some parts, a share of those left, and execute them. Returns 0 if there are none to take, as `next` tells. */
static int take(struct helpers *helpers, const struct lane *lanes, uint64_t next)
{
    int64_t left = parts_of(next) - part_of(next), share = left / (helpers->begun + 1), taken = share ? share : 1;
    if (left <= 0)
        return 0;
    uint64_t then = next + (uint64_t)taken;
    if (__atomic_compare_exchange_n(&helpers->next, &next, then, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        const struct command *command = helpers->commands[command_of(next)];
        const struct lane *lane = &lanes[command->lane];
        int32_t code = lane->way->perform_parts(lane, command, part_of(next), taken, parts_of(next));
        if (code != 0)
            __atomic_store_n(&helpers->refused, code, __ATOMIC_RELAXED);
        __atomic_add_fetch(&helpers->done, taken, __ATOMIC_RELEASE);
    }
    return 1;
}

static void help_run(struct helper *helper)
{
    struct helpers *helpers = helper->all;
    for (int64_t look = 0;;) {
        uint64_t next = __atomic_load_n(&helpers->next, __ATOMIC_ACQUIRE);
        if (run_of(next) != helper->seen || command_of(next) == NONE)
            return;
        if (take(helpers, helper->lanes, next))
            look = 0;
        else
            syclsched_pause(look++);
    }
}

static void *help(void *argument)
{
    struct helper *helper = argument;
    struct helpers *helpers = helper->all;
    pthread_mutex_lock(&helpers->mutex);
    for (;;) {
        while (!helpers->closing && helpers->run == helper->seen)
            pthread_cond_wait(&helpers->changed, &helpers->mutex);
        if (helpers->closing)
            break;
        helper->seen = helpers->run;
        pthread_mutex_unlock(&helpers->mutex);
        help_run(helper);
        pthread_mutex_lock(&helpers->mutex);
    }
    pthread_mutex_unlock(&helpers->mutex);
    return NULL;
}

/* Return so many helpers, with the queues of each by lane, or null if no thread can be created. */
struct helpers *syclsched_helpers_new(const struct lane *const *lanes, int64_t count)
{
    struct helpers *helpers = calloc(1, sizeof *helpers);
    struct helper *each = calloc((size_t)count, sizeof *each);
    if (!helpers || !each) {
        free(helpers);
        free(each);
        return NULL;
    }
    sigset_t all, before;
    helpers->each = each;
    helpers->count = count;
    helpers->off = -1;
    if (sched_getaffinity(0, sizeof helpers->allowed, &helpers->allowed) != 0)
        CPU_ZERO(&helpers->allowed);
    helpers->next = word(0, NONE, 0);
    pthread_mutex_init(&helpers->mutex, NULL);
    pthread_cond_init(&helpers->changed, NULL);
    sigfillset(&all); /* signals are handled by other threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int64_t i = 0; i < count; ++i) {
        each[i] = (struct helper){helpers, lanes[i], 0, 0};
        if (pthread_create(&each[i].thread, NULL, help, &each[i]) != 0)
            break;
        ++helpers->begun;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (helpers->begun)
        return helpers;
    syclsched_helpers_delete(helpers);
    return NULL;
}

void syclsched_helpers_delete(struct helpers *helpers)
{
    if (!helpers)
        return;
    pthread_mutex_lock(&helpers->mutex);
    helpers->closing = 1;
    pthread_cond_broadcast(&helpers->changed);
    pthread_mutex_unlock(&helpers->mutex);
    for (int64_t i = 0; i < helpers->begun; ++i)
        pthread_join(helpers->each[i].thread, NULL);
    pthread_cond_destroy(&helpers->changed);
    pthread_mutex_destroy(&helpers->mutex);
    free(helpers->each);
    free(helpers);
}

/* Keep helpers off the caller's core: the system may wake them there, and leave them waiting for it for half a
 * millisecond while another core is idle. */
static void keep_off(struct helpers *helpers)
{
    int here = sched_getcpu();
    cpu_set_t others = helpers->allowed;
    if (here < 0 || here == helpers->off || CPU_COUNT(&others) < 2)
        return;
    CPU_CLR(here, &others);
    for (int64_t i = 0; i < helpers->begun; ++i)
        pthread_setaffinity_np(helpers->each[i].thread, sizeof others, &others);
    helpers->off = here;
}

/* Wake the helpers for a run of these commands, which the caller must end. */
void syclsched_helpers_begin(struct helpers *helpers, const struct command *const *commands)
{
    keep_off(helpers);
    pthread_mutex_lock(&helpers->mutex);
    helpers->commands = commands;
    ++helpers->run;
    __atomic_store_n(&helpers->next, word(helpers->run, 0, 0), __ATOMIC_RELEASE);
    pthread_cond_broadcast(&helpers->changed);
    pthread_mutex_unlock(&helpers->mutex);
}

/* Execute a command of the run together, in so many parts, 255 at most. Returns 0, or what a backend returned that
 * refused a part: then others may have been executed. */
int32_t syclsched_helpers_perform(struct helpers *helpers, const struct lane *lanes, int64_t command, int64_t parts)
{
    helpers->done = helpers->refused = 0;
    __atomic_store_n(&helpers->next, word(helpers->run, command, parts), __ATOMIC_RELEASE);
    while (take(helpers, lanes, __atomic_load_n(&helpers->next, __ATOMIC_ACQUIRE)))
        ;
    for (int64_t look = 0; __atomic_load_n(&helpers->done, __ATOMIC_ACQUIRE) < parts; ++look)
        syclsched_pause(look);
    return __atomic_load_n(&helpers->refused, __ATOMIC_RELAXED);
}

/* End the run: helpers sleep until the next one. */
void syclsched_helpers_end(struct helpers *helpers)
{
    __atomic_store_n(&helpers->next, word(helpers->run, NONE, 0), __ATOMIC_RELEASE);
}
