/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the submission loop (syclsched/devices/native/_submit*.c) with random sequences against a made-up runtime
 * (made_up_runtime.h), built with the address and undefined-behaviour sanitizers; tools/fuzz_submission.py builds and runs
 * it. No SYCL is needed. Beside what the runtime checks, every event must be given back once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_submit.h"
#include "made_up_runtime.h"

/* --- the loop ----------------------------------------------------------------------------------- */

int64_t syclsched_submit(struct lane *, int64_t, const struct command *const *, int64_t, struct event *, int64_t *,
                         struct event *, int64_t *, const volatile int32_t *);
void syclsched_wait(const struct event *, int64_t);
int32_t syclsched_status(const struct event *);
int64_t syclsched_next_failed(const struct event *, int64_t, int64_t);
int64_t syclsched_completed(const struct event *, const int64_t *, int64_t, const int64_t *, const int64_t *, int64_t,
                            int64_t *, int64_t *, int64_t *, int64_t *);
void syclsched_times(const struct event *const *, int64_t, int64_t *, int64_t *);
void syclsched_delete(const struct event *, int64_t);

/* --- one sequence ------------------------------------------------------------------------------- */

static struct command *random_command(int64_t slot, int64_t lane, int calls)
{
    struct command *command = calloc(1, sizeof *command);
    command->kind = (int64_t)chance(calls ? 5 : 4);
    command->lane = lane;
    command->slot = slot;
    int64_t *waits = malloc(MOST_WAITS * sizeof *waits);
    uint64_t most = chance(8) == 0 ? MOST_WAITS : 3;
    for (uint64_t i = chance(most + 1); slot > 0 && i > 0; --i)
        waits[command->waits_count++] = (int64_t)chance((uint64_t)slot);
    command->waits = waits;
    if (command->kind == COPY) {
        command->nbytes = 1 + chance(64);
        command->to = calloc(1, command->nbytes);
        command->from = calloc(1, command->nbytes);
    } else if (command->kind == CALL) {
        uint64_t *words = malloc(CALL_WORDS * sizeof *words);
        for (int i = 0; i < CALL_WORDS; ++i)
            words[i] = chance(UINT64_MAX);
        command->function = (ref)(uintptr_t)library_call;
        command->words = words;
        command->event_word = (int64_t)chance(CALL_WORDS + 1) - 1;
        command->returned = calloc(1, sizeof *command->returned);
    } else if (command->kind != FENCE) {
        command->kernel = &kernels[chance(KERNELS)];
        size_t count = command->arguments_count = chance(MOST_ARGUMENTS + 1);
        int32_t *types = malloc((count + 1) * sizeof *types);
        command->arguments = malloc((count + 1) * sizeof(void *));
        for (size_t i = 0; i < count; ++i) {
            types[i] = chance(2) ? 10 : (int32_t)chance(10);
            size_t size = types[i] == 10 ? 16 : sizes[types[i]];
            command->arguments[i] = malloc(size); /* no larger: what reads beyond it is found */
            for (size_t k = 0; k < size; ++k)
                ((unsigned char *)command->arguments[i])[k] = (unsigned char)chance(256);
        }
        command->types = types;
        command->dimensions = 1 + chance(3);
        for (int d = 0; d < 3; ++d) {
            command->local[d] = 1 + chance(8);
            command->global[d] = command->local[d] * (1 + chance(8));
        }
    }
    return command;
}

static void give_back(struct command *command)
{
    for (size_t i = 0; i < command->arguments_count; ++i)
        free(command->arguments[i]);
    free(command->arguments);
    free((void *)command->types);
    free((void *)command->words);
    free(command->returned);
    free((void *)command->waits);
    free(command->to);
    free((void *)command->from);
    free(command);
}

static const struct way *const real_ways[] = {
    [DPCTL] = &syclsched_way_dpctl, [OPENCL] = &syclsched_way_opencl, [APART] = &syclsched_way_apart};

static void note_before(struct expected *mine, int64_t slot)
{
    const struct event *event = &events_now[slot];
    struct work *work = event->event ? work_of(face_of(event->lane), event->event) : NULL;
    if (work)
        mine->before[mine->before_count++] = work;
}

static ref noted_submit(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    struct expected *mine = &expected[command->slot];
    mine->before_count = 0;
    for (size_t i = 0; i < command->waits_count; ++i)
        note_before(mine, command->waits[i]);
    if (last_on_lane[command->lane] >= 0)
        note_before(mine, last_on_lane[command->lane]);
    if (face_of(lane) == APART && command->kind == COPY) /* done at once */
        for (size_t i = 0; i < mine->before_count; ++i)
            check(mine->before[i]->done, "a copy is made before what it waits for");
    submitting = command;
    submitting_to = lane;
    ref made = real_ways[face_of(lane)]->submit(lane, command, depends, count);
    if (made)
        last_on_lane[command->lane] = command->slot;
    if (command->kind == CALL && made)
        check(*command->returned == 0, "a call that failed is taken for done");
    if (command->kind == COPY && made)
        check(memcmp(command->to, command->from, command->nbytes) == 0, "nothing is copied");
    return made;
}

static ref noted_fence(const struct lane *lane, const ref *depends, size_t count)
{
    submitting = NULL;
    return real_ways[face_of(lane)]->fence(lane, depends, count);
}

/* Of each lane's commands so many are said to be done as are, up to the first that is not, or failed. */
static void check_completed(const struct event *events, const struct command *const *commands, int64_t done,
                            int64_t lanes_count)
{
    int64_t *slots = calloc((size_t)(lanes_count * done) + 1, sizeof *slots);
    int64_t *starts = calloc((size_t)done + 1, sizeof *starts), *ends = calloc((size_t)done + 1, sizeof *ends);
    int64_t *given = calloc((size_t)lanes_count + 1, sizeof *given), *none = calloc((size_t)lanes_count + 1, sizeof *none);
    int64_t *counts = calloc((size_t)lanes_count + 1, sizeof *counts), failed = 0, all = 0;
    for (int64_t i = 0; i < done; ++i) {
        int64_t lane = commands[i]->lane;
        slots[lane * done + given[lane]++] = i;
    }
    int64_t found = syclsched_completed(events, slots, done, none, given, lanes_count, counts, starts, ends, &failed);
    for (int64_t lane = 0; lane < lanes_count; ++lane) {
        check(counts[lane] >= 0 && counts[lane] <= given[lane], "more than there were are done");
        all += counts[lane];
        for (int64_t i = 0; i < counts[lane]; ++i) {
            int64_t slot = slots[lane * done + i];
            const struct work *work = work_of(face_of(events[slot].lane), events[slot].event);
            check(!work || work->done, "what is not done is said to be");
            check(ends[slot] >= starts[slot], "it ends before it begins");
        }
    }
    check(all == found && (!failed || found < done), "another number is done");
    free(slots), free(starts), free(ends), free(given), free(none), free(counts);
}

static int calls_lane(const struct command *const *commands, int64_t count, int64_t lane)
{
    for (int64_t i = 0; i < count; ++i)
        if (commands[i]->kind == CALL && commands[i]->lane == lane)
            return 1;
    return 0;
}

static void one_sequence(uint64_t seed)
{
    sequence = seed;
    state = seed * 0x9E3779B97F4A7C15u + 1;
    refuse_one_in = chance(3) ? 0 : 50, fail_one_in = chance(3) ? 0 : 30, stop_one_in = chance(4) ? 0 : 100;
    stop = 0;
    memset(last_on_lane, -1, sizeof last_on_lane);
    int64_t lanes_count = 1 + (int64_t)chance(MOST_LANES);
    struct lane *lanes = calloc((size_t)lanes_count, sizeof *lanes);
    struct lane *aparts = calloc((size_t)lanes_count, sizeof *aparts);
    struct way ways[] = {syclsched_way_dpctl, syclsched_way_opencl, syclsched_way_apart};
    for (int face = DPCTL; face <= APART; ++face) {
        ways[face].submit = noted_submit;
        ways[face].fence = noted_fence;
    }
    for (int64_t i = 0; i < lanes_count; ++i) {
        if (lanes_count > 1 && chance(6) == 0)
            continue; /* a host's lane has no way */
        enum face face = queues[i].face = chance(2) ? OPENCL : DPCTL;
        lanes[i] = (struct lane){.way = &ways[face],
                                 .functions = face == OPENCL ? opencl_table : dpctl_table,
                                 .queue = &queues[i],
                                 .scratch_to = &scratch[2 * i],
                                 .scratch_from = &scratch[2 * i + 1],
                                 .longest_list = face == OPENCL ? (int64_t)1 << 62 : 0,
                                 .calls = (int64_t)chance(2)};
        if (face == OPENCL && lanes[i].calls && chance(2)) {
            struct queue *apart = &queues[MOST_LANES + i];
            apart->face = APART;
            aparts[i] = lanes[i];
            aparts[i].way = &ways[APART];
            aparts[i].functions = dpctl_table;
            aparts[i].queue = apart;
            aparts[i].timed = (int64_t)chance(2);
            aparts[i].distant = (int64_t)chance(2);
        }
    }
    int64_t count = 1 + (int64_t)chance(MOST_COMMANDS);
    const struct command **commands = calloc((size_t)count, sizeof *commands);
    struct event *events = calloc((size_t)count, sizeof *events);
    int64_t total = 0;
    for (int64_t slot = 0; slot < count; ++slot) {
        int64_t lane = (int64_t)chance((uint64_t)lanes_count);
        if (lanes[lane].way)
            commands[total] = random_command(total, lane, lanes[lane].calls != 0), ++total;
    }
    events_now = events;
    struct event *made = calloc((size_t)(2 * count + 2), sizeof *made);
    int64_t *submit_ns = calloc((size_t)count, sizeof *submit_ns);
    int64_t done = 0, made_count = 0;
    while (done < total) {
        int64_t most = total - done, portion = 1 + (int64_t)chance((uint64_t)(chance(3) || most < 5 ? most : 5));
        int64_t made_here = -1;
        for (int64_t i = 0; i < lanes_count; ++i) /* lanes are split before their first call, kernels may run by then */
            if (aparts[i].way && (chance(8) == 0 || calls_lane(commands + done, portion, i)))
                lanes[i].apart = &aparts[i];
        int64_t here = syclsched_submit(lanes, lanes_count, commands + done, portion, events, submit_ns + done,
                                        made + made_count, &made_here, &stop);
        check(here >= 0 && here <= portion, "more than there were");
        check(made_here >= here && made_here <= 2 * portion, "events that were never made");
        check(here == portion || stop || refuse_one_in, "it ends for no reason");
        for (int64_t i = 0; i < lanes_count; ++i)
            check(queues[i].unflushed == 0, "a queue that got something is not flushed");
        for (int64_t i = done; i < done + here; ++i) {
            const struct lane *lane = &lanes[commands[i]->lane];
            if (lane->apart && (commands[i]->kind == CALL || commands[i]->kind == COPY))
                lane = lane->apart;
            check(events[i].event && events[i].lane == lane && events[i].slot == i, "another event");
            check(i == 0 || submit_ns[i] >= submit_ns[i - 1], "clocks go back");
        }
        made_count += made_here;
        done += here;
        if (here < portion) {
            if (stop)
                break;
            check(!events[done].event, "an event of what was refused");
            refuse_one_in = 0; /* then it is tried again */
        }
    }
    check_completed(events, commands, done, lanes_count);
    if (chance(2))
        syclsched_wait(made, made_count);
    else
        for (int64_t i = made_count; i > 0; --i)
            syclsched_wait(&made[i - 1], 1);
    const struct event **finished = calloc((size_t)(made_count + 1), sizeof *finished);
    int64_t *start_ns = calloc((size_t)(made_count + 1), sizeof *start_ns);
    int64_t *end_ns = calloc((size_t)(made_count + 1), sizeof *end_ns);
    int64_t failed = 0;
    for (int64_t i = 0; i < made_count; ++i) {
        finished[i] = &made[i];
        enum face face = face_of(made[i].lane);
        int bad = face == OPENCL && work_of(face, made[i].event)->failed;
        failed += bad;
        check(syclsched_status(&made[i]) == (bad ? -9999 : 1), "another status");
    }
    syclsched_times(finished, made_count, start_ns, end_ns);
    for (int64_t i = 0; i < made_count; ++i)
        check(start_ns[i] > 0 && (face_of(made[i].lane) == APART ? end_ns[i] >= start_ns[i] : end_ns[i] == start_ns[i] + 1),
              "other times");
    for (int64_t at = -1; (at = syclsched_next_failed(made, at + 1, made_count)) >= 0;)
        --failed;
    check(failed == 0, "failures are overlooked");
    syclsched_delete(made, made_count);
    memset(expected, 0, sizeof expected); /* what a refused call has submitted is left, and all before it is given back */
    for (int i = 0; i < MOST_QUEUES; ++i)
        while (queues[i].first)
            check(advance(&queues[i]), "something was submitted that no event tells of");
    check(live == 0, "events are not given back");
    for (int64_t i = 0; i < total; ++i)
        give_back((struct command *)commands[i]);
    free(lanes), free(aparts), free(commands), free(events), free(made), free(submit_ns), free(finished), free(start_ns), free(end_ns);
}

int main(int count, char **arguments)
{
    uint64_t first = count > 1 ? strtoull(arguments[1], NULL, 10) : 0;
    uint64_t sequences = count > 2 ? strtoull(arguments[2], NULL, 10) : 1000;
    for (uint64_t seed = first; seed < first + sequences; ++seed)
        one_sequence(seed);
    printf("%llu sequences\n", (unsigned long long)sequences);
    return 0;
}
