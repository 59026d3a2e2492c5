/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up runtime for the submission loop to be driven with, by fuzz_submission.c, which alone includes it.
 *
 * It has both faces that the loop knows, dpctl's and OpenCL's. It does commands late and in any order that queues and
 * lists allow, fails some, and refuses some submissions. As the real one it ignores the event list of a kernel submitted
 * through dpctl: the loop's fences must make up for it. Functions of a made-up library submit as much as they like, on
 * some lanes to a queue of their own, and say by an event or not at all when it is done. Every command checks, when it is
 * done, that what it was to wait for and what was before it on its lane are done, and that it has the arguments it was
 * given.
 */
#ifndef MADE_UP_RUNTIME_H
#define MADE_UP_RUNTIME_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_submit.h"

/* --- chance ------------------------------------------------------------------------------------- */

static uint64_t state, sequence;

static uint64_t chance(uint64_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below ? state % below : 0;
}

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "fuzz_submission: sequence %llu: %s\n", (unsigned long long)sequence, what);
        abort();
    }
}

/* --- the made-up runtime ------------------------------------------------------------------------ */

enum { MOST_LANES = 5, MOST_QUEUES = 2 * MOST_LANES, MOST_COMMANDS = 200, MOST_WAITS = 90, MOST_ARGUMENTS = 12 };
enum { KERNELS = 3, MOST_WORK_OF_CALL = 3 };

/* How a queue is spoken to: the loop's three ways. */
enum face { DPCTL, OPENCL, APART };

struct work {
    struct work *next_on_queue;
    struct work **lists;       /* what the runtime was told to wait for, and heeds */
    size_t lists_count;
    int64_t command;           /* -1 for a fence */
    struct queue *queue;
    int references;            /* the queue's, those of lists, and one of each event */
    int done, failed;
    uint64_t start_ns, end_ns;
};

struct queue {
    struct work *first, *last; /* not yet done */
    enum face face;
    int64_t unflushed; /* what was submitted by OpenCL's face since it was flushed, or waited for */
    int64_t submitted; /* since the last flush */
};

/* An event of SYCL's: two words, of which the first is null until something is assigned. */
struct sycl_event {
    struct work *work;
    uint64_t other;
};

struct kernel {
    unsigned char values[MOST_ARGUMENTS][8];
    size_t sizes[MOST_ARGUMENTS];
};

/* What the command of each slot must find when it is done. */
struct expected {
    struct work *before[MOST_WAITS + 1];
    size_t before_count;
};

static struct queue queues[MOST_QUEUES]; /* of each lane, and behind them those that functions submit to apart */
static struct kernel kernels[KERNELS];
static struct expected expected[MOST_COMMANDS];
static const struct command *submitting; /* the command whose turn it is; null for a fence before one */
static const struct lane *submitting_to;
static const struct event *events_now;
static int64_t last_on_lane[MOST_LANES]; /* the slot of what was submitted to it last; -1 before */
static int64_t live, refuse_one_in, fail_one_in, stop_one_in;
static uint64_t now;
static volatile int32_t stop;

static void let_go(struct work *work)
{
    check(work->references > 0, "an event is given back too often");
    if (--work->references == 0) {
        for (size_t i = 0; i < work->lists_count; ++i)
            let_go(work->lists[i]);
        free(work->lists);
        free(work);
        --live;
    }
}

static int may_go(const struct work *work)
{
    for (size_t i = 0; i < work->lists_count; ++i)
        if (!work->lists[i]->done)
            return 0;
    return 1;
}

/* Do the first command of a queue, if it may go. */
static int advance(struct queue *queue)
{
    struct work *work = queue->first;
    if (!work || !may_go(work))
        return 0;
    if (work->command >= 0) {
        const struct expected *mine = &expected[work->command];
        for (size_t i = 0; i < mine->before_count; ++i)
            check(mine->before[i]->done, "a command runs before one it waits for");
    }
    work->start_ns = ++now;
    work->end_ns = ++now;
    work->failed = fail_one_in && chance((uint64_t)fail_one_in) == 0;
    work->done = 1;
    queue->first = work->next_on_queue;
    if (!queue->first)
        queue->last = NULL;
    let_go(work);
    return 1;
}

static void advance_some(void)
{
    for (uint64_t i = chance(4); i > 0; --i)
        advance(&queues[chance(MOST_QUEUES)]);
}

static void finish(struct work *work)
{
    while (!work->done) {
        int any = 0;
        for (int i = 0; i < MOST_QUEUES; ++i)
            any |= advance(&queues[i]);
        check(any, "nothing can go on");
    }
}

/* What an event stands for, whichever way it is of; null if it ended before there was one. */
static struct work *work_of(enum face face, ref event)
{
    if (face == OPENCL)
        return event;
    const struct sycl_event *found = face == APART ? *(ref *)event : event;
    return found ? found->work : NULL;
}

static enum face face_of(const struct lane *lane)
{
    return ((const struct queue *)lane->queue)->face;
}

static struct work *enqueue(struct queue *queue, const ref *depends, size_t count, int heeded, int64_t command)
{
    advance_some();
    if (stop_one_in && chance((uint64_t)stop_one_in) == 0)
        stop = 1;
    if (refuse_one_in && chance((uint64_t)refuse_one_in) == 0)
        return NULL;
    struct work *work = calloc(1, sizeof *work);
    work->lists = calloc(count ? count : 1, sizeof *work->lists);
    for (size_t i = 0; heeded && i < count; ++i) {
        work->lists[work->lists_count] = work_of(queue->face == OPENCL ? OPENCL : DPCTL, depends[i]);
        work->lists[work->lists_count++]->references++;
    }
    work->references = 2;
    work->command = command;
    work->queue = queue;
    ++live;
    if (queue->last)
        queue->last->next_on_queue = work;
    else
        queue->first = work;
    queue->last = work;
    return work;
}

/* --- its arguments, as a command has them ------------------------------------------------------- */

static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

static void check_ranges(const struct command *command, const size_t *global, const size_t *local, size_t dimensions,
                         int reversed)
{
    check(dimensions == command->dimensions, "another number of dimensions");
    check(!local == (command->kind != ND_RANGE), "a local range, or none");
    for (size_t d = 0; d < dimensions; ++d) {
        size_t there = reversed ? dimensions - 1 - d : d;
        check(global[d] == command->global[there], "another global range");
        check(!local || local[d] == command->local[there], "another local range");
    }
}

/* --- dpctl's face ------------------------------------------------------------------------------- */

static ref new_event(void)
{
    static uint64_t number;
    if (refuse_one_in && chance(20 * (uint64_t)refuse_one_in) == 0)
        return NULL;
    struct sycl_event *made = malloc(sizeof *made);
    *made = (struct sycl_event){NULL, ++number};
    return made;
}

static ref event_for(struct work *work)
{
    if (!work)
        return NULL;
    struct sycl_event *made = malloc(sizeof *made);
    *made = (struct sycl_event){work, 0};
    return made;
}

static ref take_kernel(ref kernel, ref queue, void **arguments, const int32_t *types, size_t count,
                                const size_t *global, const size_t *local, size_t dimensions, const ref *depends,
                                size_t depends_count)
{
    const struct command *command = submitting;
    check(kernel == command->kernel && count == command->arguments_count, "another kernel");
    check(arguments == command->arguments && types == command->types, "other arguments");
    check_ranges(command, global, local, dimensions, 0);
    return event_for(enqueue(queue, depends, depends_count, 0, command->slot));
}

static ref submit_range(ref kernel, ref queue, void **arguments, const int32_t *types, size_t count,
                        const size_t range[3], size_t dimensions, const ref *depends, size_t depends_count)
{
    return take_kernel(kernel, queue, arguments, types, count, range, NULL, dimensions, depends, depends_count);
}

static ref submit_nd_range(ref kernel, ref queue, void **arguments, const int32_t *types, size_t count,
                           const size_t global[3], const size_t local[3], size_t dimensions, const ref *depends,
                           size_t depends_count)
{
    return take_kernel(kernel, queue, arguments, types, count, global, local, dimensions, depends, depends_count);
}

static char scratch[2 * MOST_LANES];

static struct work *take_copy(ref queue, void *to, const void *from, size_t nbytes, const ref *depends, size_t count)
{
    const struct command *command = submitting;
    if (command && command->kind == COPY) {
        check(to == command->to && from == command->from && nbytes == command->nbytes, "another copy");
        memcpy(to, from, nbytes);
        return enqueue(queue, depends, count, 1, command->slot);
    }
    check(!command || command->kind == FENCE || command->kind == CALL, "a copy for a kernel");
    check(nbytes == 1 && (char *)to >= scratch && (char *)to < scratch + sizeof scratch, "no fence");
    return enqueue(queue, depends, count, 1, command ? command->slot : -1);
}

static ref copy(ref queue, void *to, const void *from, size_t nbytes, const ref *depends, size_t count)
{
    return event_for(take_copy(queue, to, from, nbytes, depends, count));
}

static int32_t dpctl_status(ref event)
{
    advance_some();
    return work_of(DPCTL, event)->done ? 3 : (int32_t)chance(3);
}

static void dpctl_wait(ref event)
{
    finish(work_of(DPCTL, event));
}

static void dpctl_delete(ref event)
{
    if (work_of(DPCTL, event))
        let_go(work_of(DPCTL, event));
    free(event);
}

static uint64_t dpctl_start(ref event)
{
    return work_of(DPCTL, event)->start_ns;
}

static uint64_t dpctl_end(ref event)
{
    return work_of(DPCTL, event)->end_ns;
}

static void dpctl_wait_queue(ref queue)
{
    check(((struct queue *)queue)->face != OPENCL, "a wait for a queue that is not SYCL's");
    if (((struct queue *)queue)->last)
        finish(((struct queue *)queue)->last);
}

static const void *const dpctl_table[] = {submit_range, submit_nd_range, copy,      dpctl_status, dpctl_wait,
                                          dpctl_delete, dpctl_start,     dpctl_end, new_event,    dpctl_wait_queue};

/* --- a library's functions ---------------------------------------------------------------------- */

static int32_t returned_now;

static int32_t library_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    const uint64_t words[CALL_WORDS] = {a, b, c, d, e, f};
    const struct command *command = submitting;
    struct sycl_event *event = NULL;
    check(command && command->kind == CALL, "a call of nobody's");
    for (int i = 0; i < CALL_WORDS; ++i)
        if (i == command->event_word)
            event = (struct sycl_event *)(uintptr_t)words[i];
        else
            check(words[i] == command->words[i], "another word");
    check(!event == (command->event_word < 0), "an event, or none");
    struct work *last = NULL;
    returned_now = 0;
    for (uint64_t i = chance(MOST_WORK_OF_CALL + 1); i > 0 && !returned_now; --i) {
        struct work *work = enqueue(submitting_to->queue, NULL, 0, 0, command->slot);
        if (last)
            let_go(last);
        last = work;
        if (!work)
            returned_now = 1 + (int32_t)chance(9);
    }
    if (last && event && !returned_now && chance(4))
        event->work = last;
    else if (last)
        let_go(last);
    return returned_now;
}

/* --- OpenCL's face ------------------------------------------------------------------------------ */

static void count_submission(struct queue *queue, ref event)
{
    queue->unflushed += event != NULL;
    queue->submitted += event != NULL;
}

static int32_t cl_kernel(ref queue, ref kernel, uint32_t dimensions, const size_t *offset, const size_t *global,
                         const size_t *local, uint32_t waits, const ref *list, ref *event)
{
    const struct command *command = submitting;
    check(kernel == command->kernel && !offset && (waits == 0) == (list == NULL), "another kernel");
    check_ranges(command, global, local, dimensions, 1);
    const struct kernel *taken = kernel;
    for (size_t i = 0; i < command->arguments_count; ++i) {
        size_t size = command->types[i] == 10 ? 0 : sizes[command->types[i]];
        check(taken->sizes[i] == size, "an argument of another size");
        const void *value = size ? command->arguments[i] : (const void *)&command->arguments[i];
        check(memcmp(taken->values[i], value, size ? size : sizeof(void *)) == 0, "an argument of another value");
    }
    *event = enqueue(queue, list, waits, 1, command->slot);
    count_submission(queue, *event);
    return *event ? 0 : -5;
}

static int32_t cl_copy(ref queue, uint32_t blocking, void *to, const void *from, size_t nbytes, uint32_t waits,
                       const ref *list, ref *event)
{
    check(!blocking && (waits == 0) == (list == NULL), "another copy");
    *event = take_copy(queue, to, from, nbytes, list, waits);
    count_submission(queue, *event);
    return *event ? 0 : -5;
}

static ref cl_native_event(ref event)
{
    struct work *work = work_of(DPCTL, event);
    check(work != NULL, "the native event of nothing");
    if (refuse_one_in && chance((uint64_t)refuse_one_in) == 0)
        return NULL;
    work->references++;
    count_submission(submitting_to->queue, work);
    return work;
}

static int32_t cl_set(ref kernel, uint32_t index, size_t size, const void *value, size_t noted)
{
    if (refuse_one_in && chance(20 * (uint64_t)refuse_one_in) == 0)
        return -49;
    memcpy(((struct kernel *)kernel)->values[index], value, size);
    ((struct kernel *)kernel)->sizes[index] = noted;
    return 0;
}

static int32_t cl_set_pointer(ref kernel, uint32_t index, const void *pointer)
{
    return cl_set(kernel, index, sizeof pointer, &pointer, 0);
}

static int32_t cl_set_value(ref kernel, uint32_t index, size_t size, const void *value)
{
    return cl_set(kernel, index, size, value, size);
}

static int32_t cl_flush(ref queue)
{
    check(((struct queue *)queue)->face == OPENCL, "a flush of a queue that is not OpenCL's");
    check(((struct queue *)queue)->submitted > 0, "a flush of a queue that got nothing");
    ((struct queue *)queue)->unflushed = ((struct queue *)queue)->submitted = 0;
    advance_some();
    return 0;
}

static int32_t cl_event_info(ref event, uint32_t name, size_t size, void *value, size_t *size_ret)
{
    const struct work *work = event;
    check(name == 0x11D3 && size == sizeof(int32_t) && !size_ret, "another question");
    advance_some();
    int32_t found = !work->done ? 1 + (int32_t)chance(3) : work->failed ? -9999 : 0;
    memcpy(value, &found, sizeof found);
    return 0;
}

static int32_t cl_wait(uint32_t count, const ref *events)
{
    for (uint32_t i = 0; i < count; ++i) {
        struct work *work = events[i];
        work->queue->unflushed = 0;
        finish(work);
    }
    return 0;
}

static int32_t cl_release(ref event)
{
    let_go(event);
    return 0;
}

static int32_t cl_profiling(ref event, uint32_t name, size_t size, void *value, size_t *size_ret)
{
    const struct work *work = event;
    check((name == 0x1282 || name == 0x1283) && size == sizeof(uint64_t) && !size_ret, "another question");
    memcpy(value, name == 0x1282 ? &work->start_ns : &work->end_ns, size);
    return 0;
}

static const void *const opencl_table[] = {cl_kernel, cl_copy,    cl_set_pointer, cl_set_value, cl_flush,     cl_event_info,
                                           cl_wait,   cl_release, cl_profiling,   new_event,    dpctl_delete, cl_native_event};

#endif
