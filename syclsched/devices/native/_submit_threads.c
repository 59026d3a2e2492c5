/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend for a lane that is one core of the host: a lane thread, which executes commands in order while more are
 * appended to its list. Its events are the entries of that list.
 *
 * Commands belong to the caller and must live until their events have completed, with all that they point to.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "_submit.h"

enum { WAITING = 0, DONE = 1 };

/* Polls before an idle thread sleeps: waking it by a system call takes longer than most empty kernels. */
enum { LOOKS = 2000 };

/* An eventfd to increment when an entry has ended. */
struct waker {
    struct waker *next;
    int descriptor;
};

/* Marks the list of wakers of an entry that has ended. */
static struct waker too_late;

struct entry {
    const struct command *command; /* null for a fence */
    struct entry *next;
    struct waker *wakers;
    int32_t state; /* as the backend's `status` returns it */
    uint64_t start_ns, end_ns;
    size_t waits_count;
    struct entry *waits[];
};

/* A wake-up counter: signalled whenever an entry of any lane of a run has ended; one thread waits for it. */
struct wakeup {
    pthread_mutex_t lock;
    pthread_cond_t signalled;
    int64_t count;
    int32_t is_awaited; /* whether a thread waits */
};

struct thread {
    struct wakeup *wakeup; /* or null */
    struct lane queue; /* of cl_intel_exec_by_local_thread: executes on the submitting thread */
    pthread_t id;
    cpu_set_t allowed;
    int stays; /* whether it stays on the core it starts on */
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t more;
    struct entry *first;
    struct entry **end;
    int asleep, closed;
};

static int32_t state_of(const struct entry *entry)
{
    return __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
}

/* Remove and return the next entry; null once the list is closed and empty. */
static struct entry *next_of(struct thread *thread)
{
    for (int64_t look = 0; look < LOOKS && !__atomic_load_n(&thread->first, __ATOMIC_ACQUIRE); ++look)
        syclsched_pause(look);
    pthread_mutex_lock(&thread->lock);
    while (!thread->first && !thread->closed) {
        thread->asleep = 1;
        pthread_cond_wait(&thread->more, &thread->lock);
    }
    thread->asleep = 0;
    struct entry *entry = thread->first;
    if (entry) {
        __atomic_store_n(&thread->first, entry->next, __ATOMIC_RELEASE);
        if (!entry->next)
            thread->end = &thread->first;
    }
    pthread_mutex_unlock(&thread->lock);
    return entry;
}

void syclsched_wakeup_signal(struct wakeup *wakeup)
{
    __atomic_add_fetch(&wakeup->count, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&wakeup->is_awaited, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&wakeup->lock);
        pthread_cond_signal(&wakeup->signalled);
        pthread_mutex_unlock(&wakeup->lock);
    }
}

/* Wait until the counter differs from `count`, or for some nanoseconds; return the counter. */
int64_t syclsched_wakeup_wait(struct wakeup *wakeup, int64_t count, int64_t longest_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end_ns = until.tv_nsec + longest_ns;
    until.tv_sec += end_ns / 1000000000;
    until.tv_nsec = end_ns % 1000000000;
    pthread_mutex_lock(&wakeup->lock);
    __atomic_store_n(&wakeup->is_awaited, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&wakeup->count, __ATOMIC_SEQ_CST) == count)
        if (pthread_cond_timedwait(&wakeup->signalled, &wakeup->lock, &until) != 0)
            break;
    __atomic_store_n(&wakeup->is_awaited, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&wakeup->lock);
    return __atomic_load_n(&wakeup->count, __ATOMIC_SEQ_CST);
}

/* Return a wake-up counter; null if out of memory. */
struct wakeup *syclsched_wakeup_new(void)
{
    struct wakeup *wakeup = calloc(1, sizeof *wakeup);
    pthread_condattr_t attributes;
    if (!wakeup)
        return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&wakeup->signalled, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&wakeup->lock, NULL);
    return wakeup;
}

/* Delete a wake-up counter that no thread will signal or wait for any more. */
void syclsched_wakeup_delete(struct wakeup *wakeup)
{
    pthread_cond_destroy(&wakeup->signalled);
    pthread_mutex_destroy(&wakeup->lock);
    free(wakeup);
}

static void wake(int descriptor)
{
    const uint64_t one = 1;
    ssize_t written = write(descriptor, &one, sizeof one);
    (void)written; /* a full counter wakes the reader, too */
}

/* Mark an entry as ended. Its owner may free it at once, so it is not accessed after that. */
static void end(struct entry *entry, int32_t state)
{
    struct waker *wakers = __atomic_exchange_n(&entry->wakers, &too_late, __ATOMIC_ACQ_REL);
    __atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);
    while (wakers) {
        struct waker *next = wakers->next;
        wake(wakers->descriptor);
        free(wakers);
        wakers = next;
    }
}

/* Increment an eventfd once an event of such a lane has completed or failed, or now if it has. Returns 0 if out of
 * memory. Until then the event must not be freed, nor the descriptor closed. */
int32_t syclsched_thread_wake_at(ref event, int64_t descriptor)
{
    struct entry *entry = event;
    struct waker *waker = malloc(sizeof *waker);
    if (!waker)
        return 0;
    *waker = (struct waker){__atomic_load_n(&entry->wakers, __ATOMIC_ACQUIRE), (int)descriptor};
    while (waker->next != &too_late)
        if (__atomic_compare_exchange_n(&entry->wakers, &waker->next, waker, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return 1;
    free(waker);
    for (int64_t look = 0; state_of(entry) == WAITING; ++look) /* `end` is about to set it */
        syclsched_pause(look);
    wake((int)descriptor);
    return 1;
}

static void *work(void *argument)
{
    struct thread *thread = argument;
    struct entry *entry;
    if (!thread->stays)
        pthread_setaffinity_np(pthread_self(), sizeof thread->allowed, &thread->allowed);
    while ((entry = next_of(thread))) {
        for (size_t w = 0; w < entry->waits_count; ++w) /* successors of a failed entry are executed all the same */
            for (int64_t look = 0; state_of(entry->waits[w]) == WAITING; ++look)
                syclsched_pause(look);
        entry->start_ns = (uint64_t)syclsched_now_ns();
        int32_t code = entry->command ? thread->queue.way->perform(&thread->queue, entry->command) : 0;
        entry->end_ns = (uint64_t)syclsched_now_ns();
        end(entry, code == 0 ? DONE : code < 0 ? code : -code);
        if (thread->wakeup)
            syclsched_wakeup_signal(thread->wakeup);
    }
    return NULL;
}

/* Start the n-th lane thread, with a local queue for it, and a wake-up counter or null. Returns null on failure.
 *
 * If there are as many lanes as cores each thread stays on its own core: some systems gather threads that sleep now and
 * then on few cores, and leave two on one for milliseconds while another core is idle. */
struct thread *syclsched_thread_begin(const struct lane *queue, int64_t number, int64_t lanes, struct wakeup *wakeup)
{
    struct thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->queue = *queue;
    thread->wakeup = wakeup;
    thread->end = &thread->first;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->more, NULL);
    int known = sched_getaffinity(0, sizeof thread->allowed, &thread->allowed) == 0;
    thread->stays = known && lanes == CPU_COUNT(&thread->allowed);
    if (!known || !syclsched_begin_on(&thread->id, &thread->allowed, number, -1, work, thread)) {
        free(thread);
        return NULL;
    }
    return thread;
}

/* Make a thread end after its last command, wait for it, and delete it. Events of its lane stay valid. */
void syclsched_thread_end(struct thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->closed = 1;
    pthread_cond_signal(&thread->more);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->id, NULL);
    pthread_cond_destroy(&thread->more);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

/* --- the backend: a lane's `functions` is its thread -------------------------------------------------------------- */

static ref hand_over(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    struct thread *thread = (struct thread *)lane->functions;
    struct entry *entry = malloc(sizeof *entry + count * sizeof *entry->waits);
    if (!entry)
        return NULL;
    *entry = (struct entry){.command = command, .waits_count = count};
    if (count)
        memcpy(entry->waits, depends, count * sizeof *depends);
    pthread_mutex_lock(&thread->lock);
    __atomic_store_n(thread->end, entry, __ATOMIC_RELEASE);
    thread->end = &entry->next;
    pthread_mutex_unlock(&thread->lock);
    return entry;
}

static ref submit(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    if (command->kind == CALL) /* a library would submit to another queue */
        return NULL;
    return hand_over(lane, command, depends, count);
}

static ref fence(const struct lane *lane, const ref *depends, size_t count)
{
    return hand_over(lane, NULL, depends, count);
}

static void flush(const struct lane *lane)
{
    struct thread *thread = (struct thread *)lane->functions;
    pthread_mutex_lock(&thread->lock);
    if (thread->asleep && thread->first)
        pthread_cond_signal(&thread->more);
    pthread_mutex_unlock(&thread->lock);
}

static int32_t status(const struct lane *lane, ref event)
{
    (void)lane;
    return state_of(event);
}

static void wait(const struct lane *lane, ref event)
{
    for (int64_t look = 0; status(lane, event) == WAITING; ++look)
        syclsched_pause(look);
}

static void delete(const struct lane *lane, ref event)
{
    (void)lane;
    free(event);
}

static uint64_t start_ns(const struct lane *lane, ref event)
{
    (void)lane;
    return ((const struct entry *)event)->start_ns;
}

static uint64_t end_ns(const struct lane *lane, ref event)
{
    (void)lane;
    return ((const struct entry *)event)->end_ns;
}

const struct way syclsched_way_threads = {submit, fence, flush, status, wait, delete, start_ns, end_ns, NULL, NULL};
