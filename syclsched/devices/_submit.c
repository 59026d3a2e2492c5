/* SPDX-License-Identifier: Apache-2.0
 *
 * The submission loop: many kernels and copies handed to queues in one call, without Python in between.
 *
 * Its caller holds no GIL meanwhile. Everything a command points to belongs to the caller and must live until the
 * command's event has completed, except for scalars and lists, which are read during the call.
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

/* Other threads look at events meanwhile: one is there only when the rest of its entry is. */
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

/* The OpenCL CPU runtime has who waits for a kernel do some of its work. */
static _Thread_local int64_t helped_ns;

int64_t syclsched_helped_ns(void)
{
    return helped_ns;
}

/* Wait for what was submitted last to a lane, if what comes next is done by others: threads of SYCL's on one side, which
 * know nothing of what the native queue has, and the native queue on the other. SYCL itself would take ten times as long
 * to hand over from one to the other. */
static void change_over(struct lane *lane, int to_call, int to_copy)
{
    if (!lane->apart || !lane->last || (lane->last_is_call == to_call && !to_copy))
        return;
    const struct lane *from = lane->last_is_call ? lane->apart : lane;
    if (from->way->status(from, lane->last) == 0) {
        int64_t begun_ns = syclsched_processor_ns();
        from->way->wait(from, lane->last);
        helped_ns += syclsched_processor_ns() - begun_ns;
    }
    lane->last = NULL;
}

/* Flush the lanes that something was submitted to: each costs some 20 us with nothing of the runtime in the caches. */
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

/* So many calls are submitted before one that was submitted as many before is waited for. With 2,000 unfinished ones in
 * SYCL's queue the next takes it a millisecond and more. */
enum { CALLS = 128 };

/* After so many calls SYCL's queue is waited for, as it keeps some 500 bytes of each until then. */
enum { REMEMBERED = 4096 };

/* Submit `count` commands in order. Returns how many were submitted: fewer if one was refused or `stop` was set.
 *
 * events: by slot; null for what has completed or has no event. Written at each command's slot.
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
        int is_copy = command->kind == COPY && whole->apart != NULL; /* done here and now, by that way */
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
        change_over(whole, is_call, is_copy);
        int fenced = 1;
        if ((is_kernel && (int64_t)unfinished > lane->longest_list) || (is_call && unfinished)) {
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
        if (whole->apart) { /* others' lanes may be submitted to by several at once, and are left as they are */
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

/* Return 1 if an event has completed, 0 if not yet, a negative number if what it stands for failed. */
int32_t syclsched_status(const struct event *event)
{
    return event->lane->way->status(event->lane, event->event);
}

/* Wait for events one after another. To wait for whole queues (clFinish) is cheaper, and does not always come back.
 *
 * Where libraries are called the last comes first, and what has completed by then is not waited for: each wait for one of
 * their events costs some 80 us in which nothing goes on. */
void syclsched_wait(const struct event *events, int64_t count)
{
    for (int64_t i = count - 1; i >= 0; --i)
        if (events[i].lane->calls && syclsched_status(&events[i]) == 0)
            events[i].lane->way->wait(events[i].lane, events[i].event);
    for (int64_t i = 0; i < count; ++i)
        if (!events[i].lane->calls)
            events[i].lane->way->wait(events[i].lane, events[i].event);
}

/* Find what has completed of what was given to lanes; in order, so that nothing behind what has not is looked at.
 *
 * flight: by lane and place there, slots; a row has `room` places. Those without events are the host's and end a row.
 * done, given: by lane, from where and to where to look.
 * counts: set, by lane, to how many have completed. Returns their sum.
 * start_ns, end_ns: set by slot. *failed is set to the code of one that has failed, which is not counted.
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

/* Give events back. */
void syclsched_delete(const struct event *events, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        events[i].lane->way->delete(events[i].lane, events[i].event);
}

/* An event's callback, called by the runtime's thread: adds one to an eventfd, so that whoever reads from it wakes. */
void syclsched_wake(ref event, int32_t status, void *descriptor)
{
    const uint64_t one = 1;
    ssize_t written = write((int)(intptr_t)descriptor, &one, sizeof one);
    (void)event, (void)status, (void)written; /* a full counter wakes as well */
}

/* Raised whenever a structure or function here changes, so that an older build is never called. */
const int64_t syclsched_submit_version = 15;
