/* SPDX-License-Identifier: Apache-2.0
 *
 * The way to a lane that is one core of the host: a thread of ours, which does what it is handed, in order, while more is
 * handed to it. Its events are entries of its list.
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

/* Looks before an idle thread sleeps: it is woken through the system, which takes longer than most empty kernels. */
enum { LOOKS = 2000 };

/* Told by an eventfd that an entry has ended. */
struct waker {
    struct waker *next;
    int descriptor;
};

/* In the place of those of an entry that has ended. */
static struct waker too_late;

struct entry {
    const struct command *command; /* null for a fence */
    struct entry *next;
    struct waker *wakers;
    int32_t state; /* as a way's `status` has it */
    uint64_t start_ns, end_ns;
    size_t waits_count;
    struct entry *waits[];
};

/* Rung whenever an entry of any lane of a run has ended, for the one who waits. */
struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    int64_t rings;
    int32_t heeded; /* whether somebody sleeps */
};

struct thread {
    struct bell *bell; /* or null */
    struct lane queue; /* of cl_intel_exec_by_local_thread: done by who submits */
    pthread_t id;
    cpu_set_t allowed;
    int stays; /* on the core it begins on */
    pthread_mutex_t lock; /* for all below */
    pthread_cond_t more;
    struct entry *first;
    struct entry **end;
    int asleep, closed;
};

static int32_t state_of(const struct entry *entry)
{
    return __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
}

/* Return the next entry, taken out of the list; null once there will be no more. */
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

void syclsched_bell_ring(struct bell *bell)
{
    __atomic_add_fetch(&bell->rings, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&bell->heeded, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&bell->lock);
        pthread_cond_signal(&bell->rung);
        pthread_mutex_unlock(&bell->lock);
    }
}

/* Wait until a bell has rung more often than it had, or for some nanoseconds; return how often it has. */
int64_t syclsched_bell_wait(struct bell *bell, int64_t rings, int64_t longest_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end_ns = until.tv_nsec + longest_ns;
    until.tv_sec += end_ns / 1000000000;
    until.tv_nsec = end_ns % 1000000000;
    pthread_mutex_lock(&bell->lock);
    __atomic_store_n(&bell->heeded, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&bell->rings, __ATOMIC_SEQ_CST) == rings)
        if (pthread_cond_timedwait(&bell->rung, &bell->lock, &until) != 0)
            break;
    __atomic_store_n(&bell->heeded, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&bell->lock);
    return __atomic_load_n(&bell->rings, __ATOMIC_SEQ_CST);
}

/* Return a bell; null if there is no memory for one. */
struct bell *syclsched_bell_new(void)
{
    struct bell *bell = calloc(1, sizeof *bell);
    pthread_condattr_t attributes;
    if (!bell)
        return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&bell->rung, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&bell->lock, NULL);
    return bell;
}

/* Give a bell back that nobody will ring or wait for any more. */
void syclsched_bell_delete(struct bell *bell)
{
    pthread_cond_destroy(&bell->rung);
    pthread_mutex_destroy(&bell->lock);
    free(bell);
}

static void wake(int descriptor)
{
    const uint64_t one = 1;
    ssize_t written = write(descriptor, &one, sizeof one);
    (void)written; /* a full counter wakes as well */
}

/* Say that an entry has ended. Whoever sees that may give it back at once: it is not looked at after that. */
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

/* Have an eventfd added to once an event of such a lane has completed or failed, or now if it has. Returns 0 if there is no
 * memory for that. The event must not be given back meanwhile, nor the descriptor closed. */
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
    for (int64_t look = 0; state_of(entry) == WAITING; ++look) /* about to be said */
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
        for (size_t w = 0; w < entry->waits_count; ++w) /* what comes after one that failed is done all the same */
            for (int64_t look = 0; state_of(entry->waits[w]) == WAITING; ++look)
                syclsched_pause(look);
        entry->start_ns = (uint64_t)syclsched_now_ns();
        int32_t code = entry->command ? thread->queue.way->perform(&thread->queue, entry->command) : 0;
        entry->end_ns = (uint64_t)syclsched_now_ns();
        end(entry, code == 0 ? DONE : code < 0 ? code : -code);
        if (thread->bell)
            syclsched_bell_ring(thread->bell);
    }
    return NULL;
}

/* Begin the thread of a lane, the n-th of some, given a local queue for it, and a bell or null. Returns null if there can be
 * none.
 *
 * Where there are as many lanes as cores each stays on its own: some systems gather threads that sleep now and then on few
 * cores, and leave two on one for milliseconds while another has nothing to do. */
struct thread *syclsched_thread_begin(const struct lane *queue, int64_t number, int64_t lanes, struct bell *bell)
{
    struct thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->queue = *queue;
    thread->bell = bell;
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

/* Let a thread end after what it was handed, wait for it, and give it back. Events of its lane stay. */
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

/* --- the way: a lane's `functions` are its thread ------------------------------------------------------------------- */

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
    if (command->kind == CALL) /* it would submit to another queue */
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

const struct way syclsched_way_threads = {submit, fence, flush, status, wait, delete, start_ns, end_ns, NULL};
