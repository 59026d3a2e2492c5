/* SPDX-License-Identifier: Apache-2.0
 *
 * A run made by one call, from its first submission to the copies of its results: after some milliseconds of a model's
 * work the interpreter's data has left the processor's caches, and Python code takes ten times as long as in a loop.
 *
 * The caller submits the commands that do not block, allocates the results while the first of them run, and calls
 * again; a thread submits the rest and waits for the end. The caller waits for that thread, not for the runtime, so
 * that it can time out if a run hangs.
 *
 * A run of a few small kernels is shorter than the way to the runtime's threads and back. Such runs are executed on the
 * calling thread, alone or with helpers, if that proves faster (_submit_trials.c). The shortest are made by one call that
 * keeps the interpreter's lock: to release it and to wait for it again takes several callers longer than the run.
 *
 * Where callers meet, runs of all kinds stay on the calling threads unless that takes twice as long: the cores are busy,
 * and the threads of the runtime would only add to a run's processor time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_submit_flight.h"

/* BEGUN: the caller's part is submitted. HERE: the caller executes the commands. FLYING: the thread works. FOLLOWED: the
 * thread works, the caller uses the events meanwhile and releases them. LANDED: completed, events to be released by the
 * thread. ENDED: ended, events left to the caller. */
enum state { IDLE, BEGUN, HERE, FLYING, FOLLOWED, LANDED, ENDED };
enum { NOT_YET = 0, WELL = 1, OTHERWISE = -1 };

/* Time between the beginning of a run and its completion in which others have had the interpreter's lock. */
enum { LATE_NS = 1000000 };

/* Runs for which a caller expects others once it has met one: between two runs these are not seen. */
enum { EXPECTED = 64 };

/* Callers, of any flight, that complete a run. */
static int64_t callers;

/* Brief runs so far, and the thread of the last one. They keep the interpreter's lock and are not among `callers`; other
 * runs begin without the lock. */
static int64_t brief_runs;
static pthread_t brief_caller;

struct flight {
    struct job *job;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t begun, changed;
    enum state state;
    int closing;
    struct spread *spread;   /* or null */
    struct helpers *helpers; /* or null: none yet, or none possible */
    int32_t id;              /* of the thread */
    int64_t seen_brief_runs; /* when its last run began */
};

/* Processor time of the calling thread, without its share of kernels. */
static int64_t processor_ns(void)
{
    return syclsched_processor_ns() - syclsched_helped_ns();
}

static void submit(struct job *job, int part)
{
    int64_t begun_ns = part ? processor_ns() - job->handed_ns : 0;
    int64_t begin = part ? job->ahead : 0, end = part ? job->count : job->ahead;
    job->done[part] = job->made_count[part] = 0;
    if (!part || job->done[0] == job->ahead)
        job->done[part] = syclsched_submit(job->lanes, job->lanes_count, job->commands + begin, end - begin, job->events,
                                           job->submit_ns + begin, job->made + 2 * begin, &job->made_count[part],
                                           job->stop);
    job->handed_ns = processor_ns() - begun_ns;
    if (!part) {
        job->caller_ns = job->handed_ns;
        job->handed_at_ns = syclsched_now_ns();
    }
}

/* Wait for all events. Returns whether all commands were submitted and none failed. */
static int end(struct job *job)
{
    int well = job->done[0] + job->done[1] == job->count;
    for (int part = 1; part >= 0; --part) { /* last part first, see syclsched_wait */
        struct event *made = job->made + (part ? 2 * job->ahead : 0);
        syclsched_wait(made, job->made_count[part]);
        well = well && syclsched_next_failed(made, 0, job->made_count[part]) < 0;
    }
    job->took_ns = syclsched_now_ns() - job->handed_at_ns;
    return well;
}

static void copy_results(const struct job *job)
{
    for (int64_t i = 0; i < job->results_count; ++i)
        memcpy(job->results[i].to, job->results[i].from, job->results[i].nbytes);
}

static void clean(struct job *job)
{
    syclsched_delete(job->made, job->made_count[0]);
    syclsched_delete(job->made + 2 * job->ahead, job->made_count[1]);
    memset(job->events, 0, (size_t)job->events_count * sizeof *job->events);
    for (int64_t i = 0; i < job->lanes_count; ++i)
        job->lanes[i].last = NULL;
}

static void change(struct flight *flight, enum state state)
{
    flight->state = state;
    pthread_cond_broadcast(&flight->changed);
}

static void *fly(void *argument)
{
    struct flight *flight = argument;
    struct job *job = flight->job;
    pthread_mutex_lock(&flight->mutex);
    flight->id = syclsched_thread_id();
    for (;;) {
        while (!flight->closing && flight->state != FLYING && flight->state != FOLLOWED)
            pthread_cond_wait(&flight->begun, &flight->mutex);
        if (flight->closing)
            break;
        pthread_mutex_unlock(&flight->mutex);
        if (job->ahead < job->count)
            submit(job, 1);
        int well = end(job);
        pthread_mutex_lock(&flight->mutex);
        well = well && flight->state == FLYING; /* the result buffers of a followed run may be gone */
        if (well)
            copy_results(job);
        change(flight, well ? LANDED : ENDED);
        if (well) { /* after waking the caller: it takes as long as the rest of the end */
            pthread_mutex_unlock(&flight->mutex);
            clean(job);
            pthread_mutex_lock(&flight->mutex);
            change(flight, IDLE);
        }
    }
    pthread_mutex_unlock(&flight->mutex);
    return NULL;
}

/* Return a flight for a job, or null if no thread can be created. */
struct flight *syclsched_flight_new(struct job *job)
{
    struct flight *flight = calloc(1, sizeof *flight);
    if (!flight)
        return NULL;
    pthread_condattr_t monotonic;
    sigset_t all, before;
    flight->job = job;
    flight->seen_brief_runs = __atomic_load_n(&brief_runs, __ATOMIC_RELAXED);
    flight->spread = syclsched_spread_new(); /* optional: may be null */
    pthread_mutex_init(&flight->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&flight->begun, NULL);
    pthread_cond_init(&flight->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all); /* signals are handled by other threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int refused = pthread_create(&flight->thread, NULL, fly, flight);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!refused)
        return flight;
    syclsched_spread_delete(flight->spread);
    free(flight);
    return NULL;
}

/* Wait, with the mutex held, until a flight has left a state, or until a deadline. */
static void wait_while(struct flight *flight, enum state state, const struct timespec *until)
{
    int late = 0;
    while (flight->state == state && !late)
        late = until ? pthread_cond_timedwait(&flight->changed, &flight->mutex, until) != 0
                     : pthread_cond_wait(&flight->changed, &flight->mutex);
}

/* Whether other threads call models: a run of theirs is in progress, or the last brief run since the flight's own last
 * one was theirs. */
static int has_company(struct flight *flight)
{
    int64_t runs = __atomic_load_n(&brief_runs, __ATOMIC_RELAXED);
    pthread_t last = __atomic_load_n(&brief_caller, __ATOMIC_RELAXED);
    int has_briefly = flight->seen_brief_runs != runs && !pthread_equal(last, pthread_self());
    flight->seen_brief_runs = runs;
    return has_briefly || __atomic_load_n(&callers, __ATOMIC_RELAXED);
}

static void begin(struct flight *flight, const struct command *const *commands)
{
    struct job *job = flight->job;
    job->begun_at_ns = syclsched_now_ns();
    pthread_mutex_lock(&flight->mutex);
    wait_while(flight, LANDED, NULL);
    flight->state = BEGUN;
    pthread_mutex_unlock(&flight->mutex);
    job->commands = commands;
    if (has_company(flight))
        job->company = EXPECTED;
    else if (job->company)
        --job->company;
    job->way = syclsched_way_of(job);
    job->ahead = job->way == SUBMITTED ? job->submitted_ahead : 0;
    job->done[1] = job->made_count[1] = 0;
    submit(job, 0);
}

/* Submit the caller's part, once the events of the last run are released; then call fly or follow. */
void syclsched_flight_begin(struct flight *flight)
{
    begin(flight, flight->job->listed);
}

/* The same with a tuple of input arrays, which must live until the run has ended. Returns 0, and submits nothing, if
 * they have not the expected form. */
int32_t syclsched_flight_begin_with(struct flight *flight, const void *tuple)
{
    struct job *job = flight->job;
    if (!syclsched_look(job->given, job->given_count, tuple) || !syclsched_take(job->given, job->given_count))
        return 0;
    begin(flight, job->own);
    return 1;
}

/* Change a state into another one; return whether it was that state. */
static int advance(struct flight *flight, enum state from, enum state to)
{
    pthread_mutex_lock(&flight->mutex);
    int well = flight->state == from;
    if (well)
        flight->state = to;
    pthread_mutex_unlock(&flight->mutex);
    return well;
}

/* Execute a command on the calling thread; with helpers if there are any. Returns 0 on success. */
static int32_t perform(struct job *job, int64_t i, struct helpers *helpers)
{
    const struct command *command = job->commands[i];
    const struct lane *lane = &job->local[command->lane];
    if (helpers && job->parts[i] > 1)
        return syclsched_helpers_perform(helpers, job->local, i, job->parts[i]);
    if (command->kind == COPY) {
        memcpy(command->to, command->from, command->nbytes);
        return 0;
    }
    int is_timed = command->divisible && job->trials[ON_CALLER] < TRIALS;
    int64_t begun_ns = is_timed ? syclsched_now_ns() : 0;
    int32_t code = lane->way->perform(lane, command);
    int64_t took_ns = is_timed ? syclsched_now_ns() - begun_ns : 0;
    if (is_timed && (!job->least_of[i] || took_ns < job->least_of[i]))
        job->least_of[i] = took_ns;
    return code;
}

/* Runs in progress on calling threads, each of which keeps a core busy. */
static int64_t performing;

/* Return the helpers of a run; null if it is made without, as it is then noted to be: other callers keep the cores of
 * helpers busy, or there are no threads. */
static struct helpers *helpers_of(struct flight *flight)
{
    struct job *job = flight->job;
    if (job->way != HELPED)
        return NULL;
    if (__atomic_load_n(&performing, __ATOMIC_RELAXED) <= job->helpers_count) {
        if (flight->helpers || (flight->helpers = syclsched_helpers_new(job->helping, job->helpers_count)))
            return flight->helpers;
        job->is_divided = 0;
    }
    job->way = ON_CALLER;
    return NULL;
}

/* Execute the run's commands on the calling thread, in the state HERE. Returns whether it has completed: if a command is
 * refused or the run is stopped, the rest is left to the thread. */
static int perform_here(struct flight *flight)
{
    struct job *job = flight->job;
    int64_t i = 0;
    __atomic_add_fetch(&performing, 1, __ATOMIC_RELAXED);
    struct helpers *helpers = helpers_of(flight);
    if (helpers)
        syclsched_helpers_begin(helpers, job->commands);
    while (i < job->count && !*job->stop && perform(job, i, helpers) == 0)
        ++i;
    if (helpers)
        syclsched_helpers_end(helpers);
    __atomic_sub_fetch(&performing, 1, __ATOMIC_RELAXED);
    job->ahead = job->done[0] = i;
    if (i == job->count)
        copy_results(job);
    pthread_mutex_lock(&flight->mutex);
    change(flight, i == job->count ? IDLE : BEGUN);
    pthread_mutex_unlock(&flight->mutex);
    if (i < job->count)
        job->local = NULL, job->is_brief = 0, job->way = SUBMITTED; /* not again */
    else
        syclsched_note(job);
    return i == job->count;
}

/* Poll for the end of the run, if it is submitted completely and the last run was so short that two thread switches
 * would take as long. Returns whether it has completed and its events are released. */
static int end_here(struct flight *flight, double seconds)
{
    struct job *job = flight->job;
    const int64_t longest_ns = seconds * 1e9 < (double)job->short_ns ? (int64_t)(seconds * 1e9) : job->short_ns;
    const struct event *last = &job->made[job->made_count[0] - 1];
    if (job->done[0] < job->count || job->took_ns > longest_ns)
        return 0;
    for (int64_t look = 0; last->lane->way->status(last->lane, last->event) == 0; ++look) {
        if (*job->stop || syclsched_now_ns() - job->handed_at_ns > longest_ns) {
            job->took_ns = INT64_MAX;
            return 0;
        }
        syclsched_pause(look);
    }
    if (!end(job))
        return 0;
    pthread_mutex_lock(&flight->mutex);
    int well = flight->state == BEGUN; /* otherwise it is followed */
    if (well) {
        copy_results(job);
        clean(job);
        change(flight, IDLE);
        syclsched_note(job);
    }
    pthread_mutex_unlock(&flight->mutex);
    return well;
}

/* Wait, with the mutex held, for the thread to end the run; for at most so many seconds. Unlocks the mutex. */
static int32_t await_thread(struct flight *flight, double seconds)
{
    struct timespec until;
    struct job *job = flight->job;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    wait_while(flight, FLYING, &until);
    int32_t found = flight->state == FLYING ? NOT_YET : flight->state == ENDED ? OTHERWISE : WELL;
    pthread_mutex_unlock(&flight->mutex);
    if (found == WELL && job->way == SUBMITTED)
        syclsched_note(job);
    if (found == WELL && job->spreads && flight->spread)
        syclsched_spread_end(flight->spread);
    return found;
}

static int32_t complete(struct flight *flight, double seconds)
{
    struct job *job = flight->job;
    if (job->way != SUBMITTED && advance(flight, BEGUN, HERE)) { /* otherwise it is followed */
        int64_t waited_ns = syclsched_now_ns() - job->handed_at_ns;
        if (waited_ns > LATE_NS)
            job->begun_at_ns += waited_ns;
        if (perform_here(flight))
            return WELL;
    } else if (job->way == SUBMITTED && end_here(flight, seconds))
        return WELL;
    pthread_mutex_lock(&flight->mutex);
    flight->state = FLYING;
    pthread_cond_signal(&flight->begun);
    struct spread *spread = job->spreads ? flight->spread : NULL;
    if (spread) {
        pthread_mutex_unlock(&flight->mutex);
        syclsched_spread(spread, flight->id);
        pthread_mutex_lock(&flight->mutex);
    }
    return await_thread(flight, seconds);
}

/* Complete the run that was begun. Returns WELL, NOT_YET after so many seconds, or OTHERWISE if it has ended but not
 * completed: the events are left to find the reason, until syclsched_flight_land. */
int32_t syclsched_flight_fly(struct flight *flight, double seconds)
{
    __atomic_add_fetch(&callers, 1, __ATOMIC_RELAXED);
    int32_t found = complete(flight, seconds);
    __atomic_sub_fetch(&callers, 1, __ATOMIC_RELAXED);
    return found;
}

/* Go on waiting for a run for which `syclsched_flight_fly` returned NOT_YET. Returns the same. */
int32_t syclsched_flight_await(struct flight *flight, double seconds)
{
    pthread_mutex_lock(&flight->mutex);
    return await_thread(flight, seconds);
}

static void set_results(struct job *job, const void *tuple)
{
    for (int64_t i = 0; i < job->results_count; ++i)
        job->results[i].to = syclsched_data_of(tuple, i);
}

/* The same, with a tuple of arrays for the results; their forms are the caller's concern. */
int32_t syclsched_flight_fly_into(struct flight *flight, double seconds, const void *tuple)
{
    set_results(flight->job, tuple);
    return syclsched_flight_fly(flight, seconds);
}

/* Make a whole brief run, with tuples of arrays for inputs and results. Returns WELL; NOT_YET if a command was refused,
 * so that the run has only begun; or OTHERWISE, with nothing done, if it is not brief or the inputs have not the
 * expected form. */
int32_t syclsched_flight_hop(struct flight *flight, const void *inputs, const void *results)
{
    struct job *job = flight->job;
    if (!job->is_brief || !job->local || !syclsched_look(job->given, job->given_count, inputs) ||
        !syclsched_take(job->given, job->given_count) || !advance(flight, IDLE, HERE))
        return OTHERWISE;
    __atomic_store_n(&brief_caller, pthread_self(), __ATOMIC_RELAXED);
    __atomic_add_fetch(&brief_runs, 1, __ATOMIC_RELAXED);
    job->begun_at_ns = syclsched_now_ns();
    job->commands = job->own;
    job->way = ON_CALLER;
    job->done[1] = job->made_count[0] = job->made_count[1] = 0;
    job->handed_ns = 0; /* to read that clock takes a system call */
    set_results(job, results);
    return perform_here(flight) ? WELL : NOT_YET;
}

/* Keep the events of the run in progress; a run that was only begun continues. Returns WELL if it has completed already
 * and so has no events. */
int32_t syclsched_flight_follow(struct flight *flight)
{
    pthread_mutex_lock(&flight->mutex);
    wait_while(flight, HERE, NULL);
    int32_t found = flight->state == IDLE || flight->state == LANDED ? WELL : NOT_YET;
    if (flight->state == BEGUN)
        pthread_cond_signal(&flight->begun);
    if (flight->state == BEGUN || flight->state == FLYING)
        change(flight, FOLLOWED);
    pthread_mutex_unlock(&flight->mutex);
    return found;
}

/* Wait for the end of a run that was followed or has not completed; its events then belong to the caller. */
void syclsched_flight_land(struct flight *flight)
{
    pthread_mutex_lock(&flight->mutex);
    wait_while(flight, FOLLOWED, NULL);
    change(flight, IDLE);
    pthread_mutex_unlock(&flight->mutex);
}

/* Wait until a run that is not followed has ended and its events are released. */
void syclsched_flight_settle(struct flight *flight)
{
    pthread_mutex_lock(&flight->mutex);
    wait_while(flight, FLYING, NULL);
    wait_while(flight, LANDED, NULL);
    pthread_mutex_unlock(&flight->mutex);
}

/* Delete the flight; no followed run may be in progress. */
void syclsched_flight_delete(struct flight *flight)
{
    syclsched_flight_settle(flight);
    pthread_mutex_lock(&flight->mutex);
    flight->closing = 1;
    pthread_cond_signal(&flight->begun);
    pthread_mutex_unlock(&flight->mutex);
    pthread_join(flight->thread, NULL);
    pthread_cond_destroy(&flight->begun);
    pthread_cond_destroy(&flight->changed);
    pthread_mutex_destroy(&flight->mutex);
    syclsched_spread_delete(flight->spread);
    syclsched_helpers_delete(flight->helpers);
    free(flight);
}
