/* SPDX-License-Identifier: Apache-2.0
 *
 * The submission loop: submits many kernels, copies and library calls to queues in one call.
 *
 * It is called without the GIL. Everything a command points to belongs to the caller and must live until the command's
 * event has completed, except for scalars and lists, which are read during the call.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "_submit.h"

enum { USUAL_WAITS = 64 };

int64_t syclsched_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Other threads read the events concurrently: the event is stored last, after the rest of its entry. */
static void keep(struct event *slot, const struct event *made)
{
    slot->lane = made->lane;
    slot->slot = made->slot;
    __atomic_store_n(&slot->event, made->event, __ATOMIC_RELEASE);
}

int32_t syclsched_call(const struct command *command, ref event, int *assigned)
{
    typedef int32_t function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    /* A SYCL event is a shared pointer: two words. */
    uint64_t words[CALL_WORDS], before[2], after[2];
    memcpy(words, command->words, sizeof words);
    if (event) {
        words[command->event_word] = (uint64_t)(uintptr_t)event;
        memcpy(before, event, sizeof before);
    }
    int32_t status = ((function *)command->function)(words[0], words[1], words[2], words[3], words[4], words[5]);
    *command->returned = status;
    if (event)
        memcpy(after, event, sizeof after);
    *assigned = event && memcmp(before, after, sizeof before) != 0;
    return status;
}

int64_t syclsched_processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The OpenCL CPU runtime executes parts of a kernel on the thread that waits for it. */
static _Thread_local int64_t helped_ns;

int64_t syclsched_helped_ns(void)
{
    return helped_ns;
}

/* Wait for an event, and count the time that this thread spent on kernels. */
static void wait_helping(const struct lane *lane, ref event)
{
    int64_t begun_ns = syclsched_processor_ns();
    lane->way->wait(lane, event);
    helped_ns += syclsched_processor_ns() - begun_ns;
}

/* Wait for all that a lane's native queue was given before the lane was split: a run may prepare its first library call
 * after it has submitted kernels, of which `last` knows nothing. Returns 0 if a fence was refused. */
static int finish_unsplit(struct lane *lane)
{
    ref event = lane->way->fence(lane, NULL, 0);
    if (!event)
        return 0;
    wait_helping(lane, event);
    lane->way->delete(lane, event);
    lane->unsplit_done = 1;
    return 1;
}

/* Wait for the last submission to a split lane if the next one goes to its other queue: SYCL's threads know nothing of
 * the native queue's commands. SYCL itself would take ten times as long to synchronise the two. Returns 0 on failure. */
static int change_over(struct lane *lane, int to_call, int to_copy)
{
    if (!lane->apart)
        return 1;
    if (!lane->unsplit_done && (to_call || to_copy) && !finish_unsplit(lane))
        return 0;
    if (lane->last && (lane->last_is_call != to_call || to_copy)) {
        const struct lane *from = lane->last_is_call ? lane->apart : lane;
        if (from->way->status(from, lane->last) == 0)
            wait_helping(from, lane->last);
        lane->last = NULL;
    }
    return 1;
}

/* Wait for the last command of a split lane, before something is submitted through SYCL by other means than this loop.
 * Returns 0 on failure. */
int32_t syclsched_finish_lane(struct lane *lane)
{
    return change_over(lane, 0, 1);
}

/* Flush only the lanes that were submitted to: each flush costs some 20 us with a cold cache. */
static void flush(const struct lane *lanes, int64_t lanes_count, const struct event *made, int64_t made_count)
{
    for (int64_t i = 0; i < lanes_count; ++i) {
        int64_t first = 0;
        while (first < made_count && made[first].lane != &lanes[i])
            ++first;
        if (first < made_count)
            lanes[i].way->flush(&lanes[i]);
    }
}

/* After every CALLS library calls the loop waits for the one submitted CALLS before. With 2,000 unfinished calls in
 * SYCL's queue the next one takes more than a millisecond. */
enum { CALLS = 128 };

/* After so many calls the loop waits for SYCL's queue, which keeps some 500 bytes of each call until then. */
enum { REMEMBERED = 4096 };

/* Submit `count` commands in order. Returns how many were submitted: fewer if one was refused or `stop` was set.
 *
 * events: by slot; null if there is none. Written at each command's slot.
 * submit_ns: by position, the monotonic clock just before each submission.
 * made: every event in the order of submission, fences included: up to twice `count`. *made_count is set.
 */
int64_t syclsched_submit(struct lane *lanes, int64_t lanes_count, const struct command *const *commands,
                         int64_t count, struct event *events, int64_t *submit_ns, struct event *made,
                         int64_t *made_count, const volatile int32_t *stop)
{
    int64_t made_here = 0;
    int64_t done = 0;
    int64_t calls = 0, before = -1;
    for (; done < count && !*stop; ++done) {
        const struct command *command = commands[done];
        struct lane *whole = &lanes[command->lane];
        int is_kernel = command->kind == RANGE || command->kind == ND_RANGE, is_call = command->kind == CALL;
        int is_copy = command->kind == COPY && whole->apart != NULL; /* made synchronously, by the backend `apart` */
        const struct lane *lane = (is_call && whole->apart) || is_copy ? whole->apart : whole;
        ref usual[USUAL_WAITS];
        ref *depends = usual;
        size_t unfinished = 0;
        submit_ns[done] = syclsched_now_ns();
        if (command->waits_count > USUAL_WAITS && !(depends = malloc(command->waits_count * sizeof *depends)))
            break;
        for (size_t i = 0; i < command->waits_count; ++i) {
            const struct event *waited = &events[command->waits[i]];
            if (!waited->event || waited->lane->way->status(waited->lane, waited->event) != 0)
                continue;
            if (lane != whole || waited->lane->way != lane->way)
                waited->lane->way->wait(waited->lane, waited->event);
            else
                depends[unfinished++] = waited->event;
        }
        int fenced = change_over(whole, is_call, is_copy);
        if (fenced && ((is_kernel && (int64_t)unfinished > lane->longest_list) || (is_call && unfinished))) {
            ref fence = lane->way->fence(lane, depends, unfinished);
            fenced = fence != NULL;
            if (fenced)
                made[made_here++] = (struct event){fence, lane, command->slot};
            unfinished = 0;
        }
        ref event = fenced ? lane->way->submit(lane, command, depends, unfinished) : NULL;
        if (depends != usual)
            free(depends);
        if (!event)
            break;
        made[made_here++] = (struct event){event, lane, command->slot};
        keep(&events[command->slot], &made[made_here - 1]);
        if (whole->apart) { /* other lanes may have several submitting threads and are not written */
            whole->last = is_copy ? NULL : event;
            whole->last_is_call = is_call;
            if (is_call && ++whole->remembered == REMEMBERED) {
                syclsched_forget(whole->apart);
                whole->remembered = 0;
            }
            if (is_call && ++calls == CALLS) {
                if (before >= 0)
                    made[before].lane->way->wait(made[before].lane, made[before].event);
                calls = 0;
                before = made_here - 1;
            }
        }
    }
    flush(lanes, lanes_count, made, made_here);
    *made_count = made_here;
    return done;
}

/* Return 1 if an event has completed, 0 if not yet, a negative number if its command failed. */
int32_t syclsched_status(const struct event *event)
{
    return event->lane->way->status(event->lane, event->event);
}

/* Wait for events one after another. Waiting for whole queues (clFinish) is cheaper, but does not always return.
 *
 * Events of lanes with library calls are waited for from the last, so that most have completed: each wait for one of
 * them blocks progress for some 80 us. */
void syclsched_wait(const struct event *events, int64_t count)
{
    for (int64_t i = count - 1; i >= 0; --i)
        if (events[i].lane->calls && syclsched_status(&events[i]) == 0)
            events[i].lane->way->wait(events[i].lane, events[i].event);
    for (int64_t i = 0; i < count; ++i)
        if (!events[i].lane->calls)
            events[i].lane->way->wait(events[i].lane, events[i].event);
}

/* Find the completed commands of each lane, in order, up to the first that has not completed.
 *
 * flight: slots by lane and position; a row has `room` positions. A slot without an event is the host's and ends a row.
 * done, given: by lane, first position and end of the commands in flight.
 * counts: set, by lane, to the number of completed commands. Returns their sum.
 * start_ns, end_ns: set by slot. *failed is set to the status of a failed command, which is not counted.
 */
int64_t syclsched_completed(const struct event *events, const int64_t *flight, int64_t room, const int64_t *done,
                            const int64_t *given, int64_t lanes, int64_t *counts, int64_t *start_ns, int64_t *end_ns,
                            int64_t *failed)
{
    int64_t all = 0;
    *failed = 0;
    for (int64_t lane = 0; lane < lanes; ++lane) {
        counts[lane] = 0;
        for (int64_t place = done[lane]; place < given[lane]; ++place) {
            int64_t slot = flight[lane * room + place];
            const struct event *event = &events[slot];
            int32_t status = event->event ? syclsched_status(event) : 0;
            if (status <= 0) {
                *failed = status < 0 ? status : *failed;
                break;
            }
            start_ns[slot] = (int64_t)event->lane->way->start_ns(event->lane, event->event);
            end_ns[slot] = (int64_t)event->lane->way->end_ns(event->lane, event->event);
            ++counts[lane];
            ++all;
        }
    }
    return all;
}

/* Return the first event from `begin` on whose command failed, or -1. */
int64_t syclsched_next_failed(const struct event *events, int64_t begin, int64_t count)
{
    for (int64_t i = begin; i < count; ++i)
        if (events[i].event && syclsched_status(&events[i]) < 0)
            return i;
    return -1;
}

/* Read when finished commands started and ended, on their device's clock. */
void syclsched_times(const struct event *const *events, int64_t count, int64_t *start_ns, int64_t *end_ns)
{
    for (int64_t i = 0; i < count; ++i) {
        const struct lane *lane = events[i]->lane;
        start_ns[i] = (int64_t)lane->way->start_ns(lane, events[i]->event);
        end_ns[i] = (int64_t)lane->way->end_ns(lane, events[i]->event);
    }
}

/* Release events. */
void syclsched_delete(const struct event *events, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        events[i].lane->way->delete(events[i].lane, events[i].event);
}

/* Event callback, called by a thread of the runtime: increments an eventfd, which wakes its reader. */
void syclsched_wake(ref event, int32_t status, void *descriptor)
{
    const uint64_t one = 1;
    ssize_t written = write((int)(intptr_t)descriptor, &one, sizeof one);
    (void)event, (void)status, (void)written; /* a full counter wakes the reader, too */
}

/* Increased whenever a structure or function here changes, so that an older build is never called. */
const int64_t syclsched_submit_version = 31;
