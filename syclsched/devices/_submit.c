/* SPDX-License-Identifier: Apache-2.0
 *
 * The submission loop: many kernels and copies handed to SYCL queues in one call, without Python in between.
 *
 * It calls the C interface of dpctl, whose functions are found in the running process and given to it in `struct api`;
 * so it needs no header and no library to build. Its caller holds no GIL meanwhile. Everything a command points to
 * belongs to the caller and must live until the command's event has completed, except for scalars and lists, which are
 * read during the call.
 */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef void *ref;

enum { COMPLETE = 3 }; /* DPCTLSyclEventStatusType */

/* Functions of libDPCTLSyclInterface. */
struct api {
    ref (*submit_range)(ref kernel, ref queue, void **arguments, const int32_t *types, size_t count,
                        const size_t range[3], size_t dimensions, const ref *depends, size_t depends_count);
    ref (*submit_nd_range)(ref kernel, ref queue, void **arguments, const int32_t *types, size_t count,
                           const size_t global[3], const size_t local[3], size_t dimensions, const ref *depends,
                           size_t depends_count);
    ref (*memcpy)(ref queue, void *to, const void *from, size_t nbytes, const ref *depends, size_t depends_count);
    int32_t (*status)(ref event);
    void (*wait)(ref event);
    void (*delete)(ref event);
    uint64_t (*start_ns)(ref event);
    uint64_t (*end_ns)(ref event);
};

/* An in-order queue. */
struct lane {
    ref queue;
    void *scratch_to;         /* two bytes of device memory for fences */
    const void *scratch_from;
    int64_t longest_list;     /* a kernel with more unfinished events than this goes behind a fence */
};

enum kind { FENCE = 0, RANGE = 1, ND_RANGE = 2, COPY = 3 };

struct command {
    int64_t kind;
    int64_t lane;
    int64_t slot;            /* where its event goes */
    const int64_t *waits;    /* slots of the events it waits for */
    size_t waits_count;
    ref kernel;
    void **arguments;
    const int32_t *types;
    size_t arguments_count;
    size_t global[3];
    size_t local[3];
    size_t dimensions;
    void *to;
    const void *from;
    size_t nbytes;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static ref submit_one(const struct api *api, const struct lane *lane, const struct command *command,
                      const ref *depends, size_t count)
{
    switch (command->kind) {
    case RANGE:
        return api->submit_range(command->kernel, lane->queue, command->arguments, command->types,
                                 command->arguments_count, command->global, command->dimensions, depends, count);
    case ND_RANGE:
        return api->submit_nd_range(command->kernel, lane->queue, command->arguments, command->types,
                                    command->arguments_count, command->global, command->local, command->dimensions,
                                    depends, count);
    case COPY:
        return api->memcpy(lane->queue, command->to, command->from, command->nbytes, depends, count);
    default:
        return api->memcpy(lane->queue, lane->scratch_to, lane->scratch_from, 1, depends, count);
    }
}

/* Submit `count` commands in order. Returns how many were submitted: fewer if one was refused or `stop` was set.
 *
 * events: by slot; null for what has completed or has no event. Written at each command's slot.
 * submit_ns: by position, the monotonic clock just before each submission.
 * made: every event in the order of submission, fences included: up to twice `count`. *made_count is set.
 */
int64_t syclsched_submit(const struct api *api, const struct lane *lanes, const struct command *const *commands,
                         int64_t count, ref *events, int64_t *submit_ns, ref *made, int64_t *made_count,
                         const volatile int32_t *stop)
{
    int64_t made_here = 0;
    int64_t done = 0;
    for (; done < count && !*stop; ++done) {
        const struct command *command = commands[done];
        const struct lane *lane = &lanes[command->lane];
        ref depends[command->waits_count + 1];
        size_t unfinished = 0;
        submit_ns[done] = now_ns();
        for (size_t i = 0; i < command->waits_count; ++i) {
            ref event = events[command->waits[i]];
            if (event && api->status(event) != COMPLETE)
                depends[unfinished++] = event;
        }
        if ((command->kind == RANGE || command->kind == ND_RANGE) && (int64_t)unfinished > lane->longest_list) {
            ref fence = api->memcpy(lane->queue, lane->scratch_to, lane->scratch_from, 1, depends, unfinished);
            if (!fence)
                break;
            made[made_here++] = fence;
            unfinished = 0;
        }
        ref event = submit_one(api, lane, command, depends, unfinished);
        if (!event)
            break;
        events[command->slot] = event;
        made[made_here++] = event;
    }
    *made_count = made_here;
    return done;
}

/* Wait for events one after another. */
void syclsched_wait(const struct api *api, const ref *events, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        api->wait(events[i]);
}

/* Read when finished commands started and ended, on their device's clock. */
void syclsched_times(const struct api *api, const ref *events, int64_t count, int64_t *start_ns, int64_t *end_ns)
{
    for (int64_t i = 0; i < count; ++i) {
        start_ns[i] = (int64_t)api->start_ns(events[i]);
        end_ns[i] = (int64_t)api->end_ns(events[i]);
    }
}

/* Give events back. */
void syclsched_delete(const struct api *api, const ref *events, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        api->delete(events[i]);
}
