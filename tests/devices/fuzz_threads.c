/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the way of lanes that are threads of our own (syclsched/devices/native/_submit_threads.c) as several generations of a
 * stream do, each from a thread of its own to the same lanes, built with the thread or the address sanitizer;
 * tools/fuzz_submission.py builds and runs it. No SYCL is needed.
 *
 * Commands are done by a made-up queue, late now and then, and some fail. Each checks, when it is done, that what it waits
 * for and what its generation gave to its lane before are done, and that nothing else is being done on the lane. The end
 * of a generation is heard of by an eventfd, or waited for; then its events are given back at once.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "_submit.h"

struct wakeup;
struct thread;
struct wakeup *syclsched_wakeup_new(void);
void syclsched_wakeup_delete(struct wakeup *wakeup);
int64_t syclsched_wakeup_wait(struct wakeup *wakeup, int64_t count, int64_t longest_ns);
struct thread *syclsched_thread_begin(const struct lane *queue, int64_t number, int64_t lanes, struct wakeup *wakeup);
void syclsched_thread_end(struct thread *thread);
int32_t syclsched_thread_wake_at(ref event, int64_t descriptor);
int32_t syclsched_status(const struct event *event);
void syclsched_times(const struct event *const *events, int64_t count, int64_t *start_ns, int64_t *end_ns);

enum { LANES = 3, GENERATIONS = 3, MOST_COMMANDS = 30, MOST_WAITS = 4, FAILED = -54 };

static uint64_t sequence;
static int64_t patience_s = 60; /* after which a thread that sleeps was not woken */

static uint64_t chance(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return below ? *state % below : 0;
}

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "fuzz_threads: sequence %llu: %s\n", (unsigned long long)sequence, what);
        abort();
    }
}

/* What a command's `kernel` points to. Its fields are the lane's thread's until it is done. */
struct task {
    int64_t lane, waits_count, fails, yields;
    const struct task *waits[MOST_WAITS], *before; /* that its lane was given before it, by its generation */
    int32_t done;
};

struct generation {
    pthread_t id;
    uint64_t chance;
    struct lane *lanes;
    int descriptor;
    int fails;
};

static int32_t busy[LANES];

static int is_done(const struct task *task)
{
    return __atomic_load_n(&task->done, __ATOMIC_RELAXED); /* whoever looks has been told so by the thread way */
}

static int32_t perform(const struct lane *lane, const struct command *command)
{
    struct task *task = command->kernel;
    check(lane->queue == (ref)(uintptr_t)(task->lane + 1), "a command on another lane");
    check(!__atomic_exchange_n(&busy[task->lane], 1, __ATOMIC_RELAXED), "two commands of a lane at once");
    check(!task->before || is_done(task->before), "a command before one of its lane");
    for (int64_t w = 0; w < task->waits_count; ++w)
        check(is_done(task->waits[w]), "a command before one it waits for");
    for (int64_t i = 0; i < task->yields; ++i)
        sched_yield();
    __atomic_store_n(&task->done, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&busy[task->lane], 0, __ATOMIC_RELAXED);
    return task->fails ? FAILED : 0;
}

static const struct way made_up = {.perform = perform};

/* The way of lanes that are threads, but its `submit` lets other threads run before it returns: generations submit
 * between each other's submissions even on one busy core. */
static struct way yielding;

static ref submit_and_yield(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    ref made = syclsched_way_threads.submit(lane, command, depends, count);
    sched_yield();
    return made;
}

/* Sleep until the eventfd was added to, for `patience_s` at the most: it is added to by whoever ends what it was asked for. */
static void sleep_until_woken(int descriptor)
{
    struct pollfd wanted = {descriptor, POLLIN, 0};
    uint64_t count;
    check(poll(&wanted, 1, (int)patience_s * 1000) == 1 && read(descriptor, &count, sizeof count) == sizeof count,
          "nobody is woken");
}

static void one_run(struct generation *mine)
{
    struct task tasks[MOST_COMMANDS];
    struct command commands[MOST_COMMANDS];
    const struct command *listed[MOST_COMMANDS];
    struct event events[MOST_COMMANDS], made[2 * MOST_COMMANDS];
    int64_t waits[MOST_COMMANDS][MOST_WAITS], submit_ns[MOST_COMMANDS], made_count = 0, all_made = 0, done = 0;
    const struct task *last[LANES] = {NULL};
    volatile int32_t stop = 0;
    int64_t count = 1 + (int64_t)chance(&mine->chance, MOST_COMMANDS);
    memset(events, 0, sizeof events);
    for (int64_t i = 0; i < count; ++i) {
        struct task *task = &tasks[i];
        *task = (struct task){.lane = (int64_t)chance(&mine->chance, LANES), .yields = (int64_t)chance(&mine->chance, 3)};
        task->fails = mine->fails && chance(&mine->chance, 10) == 0;
        task->before = last[task->lane];
        last[task->lane] = task;
        for (uint64_t w = chance(&mine->chance, MOST_WAITS + 1); i > 0 && w > 0; --w) {
            waits[i][task->waits_count] = (int64_t)chance(&mine->chance, (uint64_t)i);
            task->waits[task->waits_count] = &tasks[waits[i][task->waits_count]];
            ++task->waits_count;
        }
        commands[i] = (struct command){.kind = RANGE, .lane = task->lane, .slot = i, .waits = waits[i], .kernel = task,
                                       .waits_count = (size_t)task->waits_count, .dimensions = 1};
        listed[i] = &commands[i];
    }
    while (done < count) {
        int64_t portion = 1 + (int64_t)chance(&mine->chance, (uint64_t)(count - done));
        int64_t here = syclsched_submit(mine->lanes, LANES, listed + done, portion, events, submit_ns + done,
                                        made + all_made, &made_count, &stop);
        check(here == portion, "something was refused");
        done += here, all_made += made_count;
    }
    check(all_made == count, "other events");
    uint64_t way = chance(&mine->chance, 3);
    if (way == 0)
        syclsched_wait(made, count);
    for (int64_t i = count - 1; i >= 0 && way; --i) {
        for (uint64_t times = chance(&mine->chance, 3); times > 0; --times)
            check(syclsched_thread_wake_at(events[i].event, mine->descriptor), "nobody will be woken");
        check(syclsched_thread_wake_at(events[i].event, mine->descriptor), "nobody will be woken");
        while (way == 1 && syclsched_status(&events[i]) == 0)
            sleep_until_woken(mine->descriptor);
    }
    while (way == 2 && syclsched_next_failed(events, 0, count) < 0) { /* the last to end wakes us, too */
        int64_t ended = 0;
        for (int64_t i = 0; i < count; ++i)
            ended += syclsched_status(&events[i]) != 0;
        if (ended == count)
            break;
        sleep_until_woken(mine->descriptor);
    }
    syclsched_wait(made, count);
    int64_t failed = 0, start_ns, end_ns;
    for (int64_t i = 0; i < count; ++i) {
        const struct event *one = &events[i];
        syclsched_times(&one, 1, &start_ns, &end_ns);
        check(is_done(&tasks[i]) && start_ns >= submit_ns[i] && end_ns >= start_ns, "other times");
        check(syclsched_status(one) == (tasks[i].fails ? FAILED : 1), "another status");
        failed += tasks[i].fails;
    }
    for (int64_t at = -1; (at = syclsched_next_failed(events, at + 1, count)) >= 0;)
        --failed;
    check(failed == 0, "failures are overlooked");
    syclsched_delete(made, count);
}

static void *runs(void *argument)
{
    struct generation *mine = argument;
    for (int i = 0; i < 4; ++i)
        one_run(mine);
    return NULL;
}

static void one_sequence(uint64_t seed)
{
    uint64_t words = 0x9E3779B97F4A7C15u * (seed + 1);
    struct lane lanes[LANES];
    struct thread *threads[LANES];
    struct generation generations[GENERATIONS];
    struct wakeup *wakeup = chance(&words, 2) ? syclsched_wakeup_new() : NULL;
    int fails = chance(&words, 2) == 0;
    sequence = seed;
    memset(lanes, 0, sizeof lanes);
    for (int64_t i = 0; i < LANES; ++i) {
        const struct lane queue = {.way = &made_up, .queue = (ref)(uintptr_t)(i + 1)};
        threads[i] = syclsched_thread_begin(&queue, i, LANES, wakeup);
        check(threads[i] != NULL, "no thread");
        lanes[i] = (struct lane){.way = &yielding, .functions = threads[i], .longest_list = INT64_MAX};
    }
    for (int i = 0; i < GENERATIONS; ++i) {
        generations[i] = (struct generation){0, chance(&words, UINT64_MAX) | 1, lanes, eventfd(0, EFD_CLOEXEC), fails};
        check(pthread_create(&generations[i].id, NULL, runs, &generations[i]) == 0, "no thread");
    }
    if (wakeup)
        check(syclsched_wakeup_wait(wakeup, 0, patience_s * 1000000000) > 0, "the wake-up is not signalled");
    for (int i = 0; i < GENERATIONS; ++i)
        pthread_join(generations[i].id, NULL);
    for (int i = 0; i < LANES; ++i)
        syclsched_thread_end(threads[i]);
    for (int i = 0; i < GENERATIONS; ++i)
        close(generations[i].descriptor);
    if (wakeup)
        syclsched_wakeup_delete(wakeup);
}

int main(int count, char **arguments)
{
    uint64_t first = count > 1 ? strtoull(arguments[1], NULL, 10) : 0;
    uint64_t sequences = count > 2 ? strtoull(arguments[2], NULL, 10) : 100;
    patience_s = count > 3 ? strtoll(arguments[3], NULL, 10) : patience_s;
    yielding = syclsched_way_threads;
    yielding.submit = submit_and_yield;
    for (uint64_t seed = first; seed < first + sequences; ++seed)
        one_sequence(seed);
    printf("%llu sequences\n", (unsigned long long)sequences);
    return 0;
}
