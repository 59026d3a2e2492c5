/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands executed by one thread for each lane instead of being submitted: where a lane is one core of the host, its
 * commands need not pass to a thread of the runtime. Lanes synchronise by flags.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "_submit.h"

/* The commands of one lane, which one thread executes in order. */
struct performer {
    const struct lane *lane;
    const struct command *const *commands;
    int64_t count;
    int64_t *start_ns; /* by position, on the monotonic clock */
    int64_t *end_ns;
};

struct performance {
    const struct performer *performers;
    int64_t count;
    int32_t *done;         /* by slot: the last turn (run) in which it was done */
    int32_t turn;
    const volatile int32_t *stop;
    int32_t failed;        /* set once a command has failed: no more are started */
};

struct thread {
    struct performance *whole;
    const struct performer *mine;
    const cpu_set_t *allowed;
    pthread_t id;
    int begun;
};

/* Polls before a waiting thread yields its core, and before it sleeps. Few: it may occupy the core of the lane that it
 * waits for. */
enum { SPINS = 100, YIELDS = 2000 };

void syclsched_pause(int64_t look)
{
    static const struct timespec nap = {0, 50000};
    if (look < SPINS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    } else if (look < SPINS + YIELDS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

static int over(const struct performance *whole)
{
    return *whole->stop || __atomic_load_n(&whole->failed, __ATOMIC_RELAXED);
}

static int is_done(const struct performance *whole, int64_t slot)
{
    return __atomic_load_n(&whole->done[slot], __ATOMIC_ACQUIRE) == whole->turn;
}

/* Returns 0 if the batch was stopped or has failed. */
static int wait_for(const struct performance *whole, int64_t slot)
{
    for (int64_t look = 0; !is_done(whole, slot); ++look) {
        if (over(whole))
            return 0;
        syclsched_pause(look);
    }
    return 1;
}

static void *perform(void *argument)
{
    struct thread *thread = argument;
    struct performance *whole = thread->whole;
    const struct performer *mine = thread->mine;
    for (int64_t i = 0; i < mine->count; ++i) {
        const struct command *command = mine->commands[i];
        for (size_t w = 0; w < command->waits_count; ++w)
            if (!wait_for(whole, command->waits[w]))
                return NULL;
        if (over(whole))
            return NULL;
        mine->start_ns[i] = syclsched_now_ns();
        if (mine->lane->way->perform(mine->lane, command) != 0) {
            __atomic_store_n(&whole->failed, 1, __ATOMIC_RELAXED);
            return NULL;
        }
        mine->end_ns[i] = syclsched_now_ns();
        /* All parts of a sequence but the first share its slot, which is done after the last of them. */
        if (i + 1 == mine->count || mine->commands[i + 1]->slot != command->slot)
            __atomic_store_n(&whole->done[command->slot], whole->turn, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *perform_there(void *argument)
{
    struct thread *thread = argument;
    pthread_setaffinity_np(pthread_self(), sizeof *thread->allowed, thread->allowed);
    return perform(argument);
}

int syclsched_begin_on(pthread_t *id, const cpu_set_t *allowed, int64_t number, int here, void *(*function)(void *),
                       void *argument)
{
    pthread_attr_t attributes;
    cpu_set_t there;
    int cores = CPU_COUNT(allowed), others = here >= 0 && cores > 1 ? cores - 1 : cores;
    int wanted = (int)(number % (others > 0 ? others : 1));
    pthread_attr_init(&attributes);
    for (int core = 0; cores > 1 && core < CPU_SETSIZE; ++core)
        if (core != here && CPU_ISSET(core, allowed) && wanted-- == 0) {
            CPU_ZERO(&there);
            CPU_SET(core, &there);
            pthread_attr_setaffinity_np(&attributes, sizeof there, &there);
            break;
        }
    int begun = pthread_create(id, &attributes, function, argument) == 0;
    pthread_attr_destroy(&attributes);
    return begun;
}

/* Execute all commands: the first lane's on the calling thread, each other lane's on a thread of its own. Returns when
 * no command is running: 1 if all were executed, 0 if `stop` was set or a command was refused. */
int32_t syclsched_perform(const struct performer *performers, int64_t count, int32_t *done, int32_t turn,
                          const volatile int32_t *stop)
{
    struct performance whole = {performers, count, done, turn, stop, 0};
    struct thread threads[count + 1];
    cpu_set_t allowed;
    int all = sched_getaffinity(0, sizeof allowed, &allowed) == 0, here = sched_getcpu();
    for (int64_t i = 0; i < count; ++i)
        threads[i] = (struct thread){&whole, &performers[i], &allowed, 0, 0};
    for (int64_t i = 1; i < count && all; ++i)
        all = threads[i].begun = syclsched_begin_on(&threads[i].id, &allowed, i - 1, here, perform_there, &threads[i]);
    if (!all) /* too few threads: the caller submits to the queues instead */
        __atomic_store_n(&whole.failed, 1, __ATOMIC_RELAXED);
    if (count > 0)
        perform(&threads[0]);
    for (int64_t i = 1; i < count; ++i)
        if (threads[i].begun)
            pthread_join(threads[i].id, NULL);
    return !over(&whole);
}
