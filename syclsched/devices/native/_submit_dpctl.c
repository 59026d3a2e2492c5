/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend for queues of any SYCL device: the C interface of dpctl, libDPCTLSyclInterface.
 */
#include "_submit.h"

enum { SUBMITTED = 1, COMPLETE = 3 }; /* DPCTLSyclEventStatusType */

struct functions {
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
    ref (*new_event)(void);
    void (*wait_queue)(ref queue);
};

static const struct functions *of(const struct lane *lane)
{
    return lane->functions;
}

static ref fence(const struct lane *lane, const ref *depends, size_t count)
{
    return of(lane)->memcpy(lane->queue, lane->scratch_to, lane->scratch_from, 1, depends, count);
}

/* If the library function returns no event, the event of a fence behind it is used. */
static ref call(const struct lane *lane, const struct command *command)
{
    ref event = command->event_word >= 0 ? of(lane)->new_event() : NULL;
    int assigned = 0;
    if (command->event_word >= 0 && !event)
        return NULL;
    int32_t status = syclsched_call(command, event, &assigned);
    if (status == 0 && assigned)
        return event;
    if (event)
        of(lane)->delete(event);
    return status == 0 ? fence(lane, NULL, 0) : NULL;
}

void syclsched_forget(const struct lane *lane)
{
    of(lane)->wait_queue(lane->queue);
}

static ref submit(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    switch (command->kind) {
    case RANGE:
        return of(lane)->submit_range(command->kernel, lane->queue, command->arguments, command->types,
                                      command->arguments_count, command->global, command->dimensions, depends, count);
    case ND_RANGE:
        return of(lane)->submit_nd_range(command->kernel, lane->queue, command->arguments, command->types,
                                         command->arguments_count, command->global, command->local,
                                         command->dimensions, depends, count);
    case COPY:
        return of(lane)->memcpy(lane->queue, command->to, command->from, command->nbytes, depends, count);
    case CALL:
        return call(lane, command);
    default:
        return fence(lane, depends, count);
    }
}

static void flush(const struct lane *lane)
{
    (void)lane; /* the runtime flushes by itself */
}

static int32_t status(const struct lane *lane, ref event)
{
    return of(lane)->status(event) == COMPLETE;
}

/* Whether a command may be queued behind a host task that needs the GIL; see host_tasks.py. */
int32_t syclsched_look_first;

static void wait(const struct lane *lane, ref event)
{
    if (__atomic_load_n(&syclsched_look_first, __ATOMIC_RELAXED)) {
        for (int64_t look = 0; of(lane)->status(event) == SUBMITTED; ++look)
            syclsched_pause(look);
    }
    of(lane)->wait(event);
}

static void delete(const struct lane *lane, ref event)
{
    of(lane)->delete(event);
}

static uint64_t start_ns(const struct lane *lane, ref event)
{
    return of(lane)->start_ns(event);
}

static uint64_t end_ns(const struct lane *lane, ref event)
{
    return of(lane)->end_ns(event);
}

const struct way syclsched_way_dpctl = {submit, fence, flush, status, wait, delete, start_ns, end_ns, NULL, NULL};
