/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the submission loop (syclsched/devices/_submit*.c) with random sequences against a made-up runtime, built with
 * the address and undefined-behaviour sanitizers; tools/fuzz_submission.py builds and runs it. No SYCL is needed.
 *
 * The runtime has both faces that the loop knows, dpctl's and OpenCL's. It does commands late and in any order that
 * queues and lists allow, fails some, and refuses some submissions. As the real one it ignores the event list of a
 * kernel submitted through dpctl: the loop's fences must make up for it. Functions of a made-up library submit as much as
 * they like, on some lanes to a queue of their own, and say by an event or not at all when it is done. Every command
 * checks, when it is done, that what it was to wait for and what was before it on its lane are done, and that it has the
 * arguments it was given; every event must be given back once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_submit.h"

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
    int references;            /* the queue's, those of lists, and one of each event */
    int done, failed;
    uint64_t start_ns, end_ns;
};

struct queue {
    struct work *first, *last; /* not yet done */
    enum face face;
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

static const void *const dpctl_table[] = {submit_range, submit_nd_range, copy,      dpctl_status, dpctl_wait,
                                          dpctl_delete, dpctl_start,     dpctl_end, new_event};

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
    return *event ? 0 : -5;
}

static int32_t cl_copy(ref queue, uint32_t blocking, void *to, const void *from, size_t nbytes, uint32_t waits,
                       const ref *list, ref *event)
{
    check(!blocking && (waits == 0) == (list == NULL), "another copy");
    *event = take_copy(queue, to, from, nbytes, list, waits);
    return *event ? 0 : -5;
}

static ref cl_native_event(ref event)
{
    struct work *work = work_of(DPCTL, event);
    check(work != NULL, "the native event of nothing");
    if (refuse_one_in && chance((uint64_t)refuse_one_in) == 0)
        return NULL;
    work->references++;
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
    for (uint32_t i = 0; i < count; ++i)
        finish(events[i]);
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
            lanes[i].apart = &aparts[i];
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
        int64_t portion = 1 + (int64_t)chance((uint64_t)(total - done)), made_here = -1;
        int64_t here = syclsched_submit(lanes, lanes_count, commands + done, portion, events, submit_ns + done,
                                        made + made_count, &made_here, &stop);
        check(here >= 0 && here <= portion, "more than there were");
        check(made_here >= here && made_here <= 2 * portion, "events that were never made");
        check(here == portion || stop || refuse_one_in, "it ends for no reason");
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
