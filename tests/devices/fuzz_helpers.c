/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the threads that help a caller to execute kernels (syclsched/devices/native/_submit_helpers.c) with random runs of
 * made-up kernels in parts, built with the thread or the address sanitizer; tools/fuzz_submission.py builds and runs it.
 * No SYCL is needed.
 *
 * Each part is to be executed once, behind all parts of the kernels before, and before the caller goes on. Some are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_submit.h"

enum { HELPERS = 2, RUNS = 20, MOST_COMMANDS = 5, MOST_PARTS = 32, REFUSED = -5 };

static uint64_t sequence;

/* What a command's `kernel` points to. `done` is plain, so that the thread sanitizer notices accesses without an order. */
struct task {
    int64_t parts, refused; /* the number of parts, and the one that is refused; -1 for none */
    int64_t launches;       /* of one or more parts each */
    const struct task *before;
    int done[MOST_PARTS];
};

static uint64_t chance(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state % below;
}

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "fuzz_helpers: sequence %llu: %s\n", (unsigned long long)sequence, what);
        abort();
    }
}

static int are_done(const struct task *task)
{
    for (int64_t part = 0; part < task->parts; ++part)
        if (!task->done[part])
            return 0;
    return 1;
}

static int32_t perform_parts(const struct lane *lane, const struct command *command, int64_t first, int64_t count,
                             int64_t parts)
{
    struct task *task = command->kernel;
    int32_t code = 0;
    check(lane->queue != NULL, "a part on a lane without a queue");
    check(parts == task->parts && count > 0 && first + count <= parts, "a part that there is not");
    check(!task->before || are_done(task->before), "a part before the kernel before is done");
    if (first % 3 == 0)
        sched_yield();
    for (int64_t part = first; part < first + count; ++part) {
        check(!task->done[part], "a part is executed twice");
        task->done[part] = 1;
        if (part == task->refused)
            code = REFUSED;
    }
    __atomic_add_fetch(&task->launches, 1, __ATOMIC_RELAXED);
    return code;
}

static const struct way made_up = {.perform_parts = perform_parts};

static void one_run(struct helpers *helpers, const struct lane *own, uint64_t *state)
{
    struct task tasks[MOST_COMMANDS];
    struct command commands[MOST_COMMANDS];
    const struct command *listed[MOST_COMMANDS];
    int64_t count = 1 + (int64_t)chance(state, MOST_COMMANDS);
    memset(tasks, 0, sizeof tasks);
    memset(commands, 0, sizeof commands);
    for (int64_t i = 0; i < count; ++i) {
        tasks[i].parts = 2 + (int64_t)chance(state, MOST_PARTS - 1);
        tasks[i].refused = chance(state, 10) == 0 ? (int64_t)chance(state, (uint64_t)tasks[i].parts) : -1;
        tasks[i].before = i ? &tasks[i - 1] : NULL;
        commands[i].kernel = &tasks[i];
        listed[i] = &commands[i];
    }
    syclsched_helpers_begin(helpers, listed);
    for (int64_t i = 0; i < count; ++i) {
        int32_t code = syclsched_helpers_perform(helpers, own, i, tasks[i].parts);
        check(code == (tasks[i].refused < 0 ? 0 : REFUSED), "another result than that of the parts");
        check(are_done(&tasks[i]), "the caller goes on before all parts are done");
        check(tasks[i].launches <= tasks[i].parts / 4 + 6, "parts are launched one by one");
    }
    syclsched_helpers_end(helpers);
}

int main(int count, char **given)
{
    uint64_t first = count > 1 ? strtoull(given[1], NULL, 10) : 0, sequences = count > 2 ? strtoull(given[2], NULL, 10) : 100;
    int queue;
    const struct lane own = {.way = &made_up, .queue = &queue};
    const struct lane *lanes[HELPERS] = {&own, &own};
    for (sequence = first; sequence < first + sequences; ++sequence) {
        uint64_t state = (sequence + 1) * 0x9E3779B97F4A7C15u;
        struct helpers *helpers = syclsched_helpers_new(lanes, HELPERS);
        check(helpers != NULL, "there are no threads");
        for (int run = 0; run < RUNS; ++run)
            one_run(helpers, &own, &state);
        syclsched_helpers_delete(helpers);
    }
    printf("%llu sequences\n", (unsigned long long)sequences);
    return 0;
}
