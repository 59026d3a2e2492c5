/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of library calls on a split lane: their work runs in host tasks on threads of the SYCL runtime, while the
 * lane's kernels go to the native queue. SYCL's events of host tasks have no useful times: start and end are both the
 * time of submission. If times are wanted, they are taken here by waiting for each call.
 *
 * Copies on such a lane are made synchronously by the calling thread: all of its work is on the host's cores, and after
 * a copy the native queue's worker threads would keep cores busy for a millisecond that the library's threads need. The
 * runtime makes those to and from a device's own memory; they are waited for.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_submit.h"

/* An event of this backend; SYCL's event must be the first member. */
struct call {
    ref event;        /* null if completed */
    int64_t start_ns; /* monotonic clock, which CPU devices use, too */
    int64_t end_ns;   /* equal to start_ns if the call was not waited for */
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static ref of(ref event)
{
    return ((struct call *)event)->event;
}

static ref submit(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    struct call *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    made->start_ns = now_ns();
    made->end_ns = made->start_ns;
    if (command->kind == COPY && !lane->distant) { /* all predecessors have completed */
        memcpy(command->to, command->from, command->nbytes);
        made->event = NULL;
        made->end_ns = now_ns();
        return made;
    }
    made->event = syclsched_way_dpctl.submit(lane, command, depends, count);
    if (!made->event) {
        free(made);
        return NULL;
    }
    if (lane->timed || command->kind == COPY) {
        syclsched_way_dpctl.wait(lane, made->event);
        made->end_ns = now_ns();
    }
    return made;
}

static ref fence(const struct lane *lane, const ref *depends, size_t count)
{
    const struct command nothing = {.kind = FENCE};
    return submit(lane, &nothing, depends, count);
}

static void flush(const struct lane *lane)
{
    (void)lane; /* the runtime flushes by itself */
}

static int32_t status(const struct lane *lane, ref event)
{
    return of(event) ? syclsched_way_dpctl.status(lane, of(event)) : 1;
}

static void wait(const struct lane *lane, ref event)
{
    if (of(event))
        syclsched_way_dpctl.wait(lane, of(event));
}

static void delete(const struct lane *lane, ref event)
{
    if (of(event))
        syclsched_way_dpctl.delete(lane, of(event));
    free(event);
}

static uint64_t start_ns(const struct lane *lane, ref event)
{
    (void)lane;
    return (uint64_t)((struct call *)event)->start_ns;
}

static uint64_t end_ns(const struct lane *lane, ref event)
{
    (void)lane;
    return (uint64_t)((struct call *)event)->end_ns;
}

const struct way syclsched_way_apart = {submit, fence, flush, status, wait, delete, start_ns, end_ns, NULL, NULL};
