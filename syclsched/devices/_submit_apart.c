/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of calls whose work is done by threads of the SYCL runtime's (host tasks), on a lane of which everything else
 * goes to the native queue. Such events have no times of their own: start and end are both when they were submitted. So
 * these are taken here, where they are asked for, by waiting for each call.
 *
 * Copies on such a lane are done here and now: all of its work is on the host's own cores, the native queue's worker
 * threads would stay with it for a millisecond after any copy, and those of the other side would do without them.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_submit.h"

/* What stands for an event of this way; SYCL's comes first. */
struct call {
    ref event;        /* null if it has ended */
    int64_t start_ns; /* on the monotonic clock, which is the CPU devices' */
    int64_t end_ns;   /* the same if it was not waited for */
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
    if (command->kind == COPY) { /* what was before has ended */
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
    if (lane->timed) {
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
    (void)lane; /* the runtime does it */
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

const struct way syclsched_way_apart = {submit, fence, flush, status, wait, delete, start_ns, end_ns, NULL};
