/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend for the native queue behind a SYCL queue of an OpenCL device: a submission takes a quarter to a third of
 * the time it takes through SYCL, and a kernel's event list is honoured where SYCL's is not
 * (syclsched/devices/native/fences.py), so that no fence is needed.
 *
 * Kernels here are OpenCL kernels whose arguments are set here only. Constants and signatures are those of the OpenCL
 * specification and of cl_intel_unified_shared_memory.
 */
#include "_submit.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;

enum {
    CL_SUCCESS = 0,
    CL_COMPLETE = 0,
    CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
    CL_PROFILING_COMMAND_START = 0x1282,
    CL_PROFILING_COMMAND_END = 0x1283,
    CL_INVALID_OPERATION = -59,
    UNKNOWN_STATUS = -9999
};

struct functions {
    cl_int (*enqueue_kernel)(ref queue, ref kernel, cl_uint dimensions, const size_t *offset, const size_t *global,
                             const size_t *local, cl_uint waits, const ref *wait_list, ref *event);
    cl_int (*enqueue_copy)(ref queue, cl_uint blocking, void *to, const void *from, size_t nbytes, cl_uint waits,
                           const ref *wait_list, ref *event);
    cl_int (*set_pointer)(ref kernel, cl_uint index, const void *pointer);
    cl_int (*set_value)(ref kernel, cl_uint index, size_t size, const void *value);
    cl_int (*flush)(ref queue);
    cl_int (*event_info)(ref event, cl_uint name, size_t size, void *value, size_t *size_ret);
    cl_int (*wait)(cl_uint count, const ref *events);
    cl_int (*release)(ref event);
    cl_int (*profiling_info)(ref event, cl_uint name, size_t size, void *value, size_t *size_ret);
    ref (*new_sycl_event)(void);
    void (*delete_sycl_event)(ref event);
    ref (*native_event)(ref event); /* of a SYCL event; to be released */
};

static const struct functions *of(const struct lane *lane)
{
    return lane->functions;
}

/* Bytes of an argument by DPCTLKernelArgType; 0 for a pointer. */
static size_t size_of(int32_t type)
{
    static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    return type >= 0 && type < (int32_t)sizeof sizes ? sizes[type] : 0;
}

static cl_int set_arguments(const struct lane *lane, const struct command *command)
{
    for (size_t i = 0; i < command->arguments_count; ++i) {
        size_t size = size_of(command->types[i]);
        void *argument = command->arguments[i];
        cl_int error = size ? of(lane)->set_value(command->kernel, (cl_uint)i, size, argument)
                            : of(lane)->set_pointer(command->kernel, (cl_uint)i, argument);
        if (error != CL_SUCCESS)
            return error;
    }
    return CL_SUCCESS;
}

/* Set the pointer of a kernel's argument that is read anywhere in the host's memory. Returns 0 on success. */
int32_t syclsched_move_argument(const struct moved_argument *moved, const void *data)
{
    const struct functions *functions = moved->functions;
    return functions->set_pointer(moved->kernel, (cl_uint)moved->index, data);
}

static ref kernel(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    /* SYCL's last dimension runs fastest, OpenCL's first. */
    size_t global[3], local[3], last = command->dimensions - 1;
    ref event = NULL;
    for (size_t d = 0; d < command->dimensions; ++d) {
        global[d] = command->global[last - d];
        local[d] = command->local[last - d];
    }
    if (set_arguments(lane, command) != CL_SUCCESS)
        return NULL;
    cl_int error = of(lane)->enqueue_kernel(lane->queue, command->kernel, (cl_uint)command->dimensions, NULL, global,
                                            command->kind == ND_RANGE ? local : NULL, (cl_uint)count,
                                            count ? depends : NULL, &event);
    return error == CL_SUCCESS ? event : NULL;
}

static ref copy(const struct lane *lane, void *to, const void *from, size_t nbytes, const ref *depends, size_t count)
{
    ref event = NULL;
    cl_int error = of(lane)->enqueue_copy(lane->queue, 0, to, from, nbytes, (cl_uint)count, count ? depends : NULL,
                                          &event);
    return error == CL_SUCCESS ? event : NULL;
}

static ref fence(const struct lane *lane, const ref *depends, size_t count)
{
    return copy(lane, lane->scratch_to, lane->scratch_from, 1, depends, count);
}

/* The function submits to the SYCL queue, and so to the native in-order queue behind it. If it returns no event, the
 * event of a fence behind it is used. */
static ref call(const struct lane *lane, const struct command *command)
{
    ref event = command->event_word >= 0 ? of(lane)->new_sycl_event() : NULL, native = NULL;
    int assigned = 0;
    if (command->event_word >= 0 && !event)
        return NULL;
    int32_t status = syclsched_call(command, event, &assigned);
    if (status == 0 && assigned)
        native = of(lane)->native_event(event);
    if (event)
        of(lane)->delete_sycl_event(event);
    if (status != 0)
        return NULL;
    return native ? native : fence(lane, NULL, 0);
}

static ref submit(const struct lane *lane, const struct command *command, const ref *depends, size_t count)
{
    switch (command->kind) {
    case RANGE:
    case ND_RANGE:
        return kernel(lane, command, depends, count);
    case COPY:
        return copy(lane, command->to, command->from, command->nbytes, depends, count);
    case CALL:
        return call(lane, command);
    default:
        return fence(lane, depends, count);
    }
}

static void flush(const struct lane *lane)
{
    of(lane)->flush(lane->queue);
}

static int32_t status(const struct lane *lane, ref event)
{
    cl_int found;
    if (of(lane)->event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof found, &found, NULL) != CL_SUCCESS)
        return UNKNOWN_STATUS;
    return found == CL_COMPLETE ? 1 : found < 0 ? found : 0;
}

static void wait(const struct lane *lane, ref event)
{
    of(lane)->wait(1, &event); /* a failure shows in the event's status */
}

static void delete(const struct lane *lane, ref event)
{
    of(lane)->release(event);
}

static uint64_t profiled(const struct lane *lane, ref event, cl_uint name)
{
    cl_ulong found = 0;
    of(lane)->profiling_info(event, name, sizeof found, &found, NULL);
    return found;
}

static uint64_t start_ns(const struct lane *lane, ref event)
{
    return profiled(lane, event, CL_PROFILING_COMMAND_START);
}

static uint64_t end_ns(const struct lane *lane, ref event)
{
    return profiled(lane, event, CL_PROFILING_COMMAND_END);
}

/* Execute parts of a divisible kernel's groups on the calling thread: those of a range along the axis with the most. Its
 * arguments are set: other threads execute the other parts. */
static int32_t perform_parts(const struct lane *lane, const struct command *command, int64_t first, int64_t count,
                             int64_t parts)
{
    size_t offset[3] = {0, 0, 0}, global[3], local[3], last = command->dimensions - 1, axis = 0, groups = 0;
    if (command->arguments_count)
        return CL_INVALID_OPERATION;
    for (size_t d = 0; d < command->dimensions; ++d) {
        global[d] = command->global[last - d];
        local[d] = command->kind == ND_RANGE ? command->local[last - d] : 1;
        if (global[d] / local[d] >= groups)
            groups = global[d] / local[d], axis = d;
    }
    offset[axis] = groups * (size_t)first / (size_t)parts * local[axis];
    global[axis] = groups * (size_t)(first + count) / (size_t)parts * local[axis] - offset[axis];
    if (!global[axis])
        return CL_SUCCESS;
    return of(lane)->enqueue_kernel(lane->queue, command->kernel, (cl_uint)command->dimensions, offset, global,
                                    command->kind == ND_RANGE ? local : NULL, 0, NULL, NULL);
}

/* Execute a command on the calling thread: the lane's queue is one of cl_intel_exec_by_local_thread. */
static int32_t perform(const struct lane *lane, const struct command *command)
{
    if (command->kind == COPY)
        return of(lane)->enqueue_copy(lane->queue, 1, command->to, command->from, command->nbytes, 0, NULL, NULL);
    if (command->kind == FENCE)
        return CL_SUCCESS;
    if (command->kind == CALL) /* it would submit to another queue */
        return CL_INVALID_OPERATION;
    size_t global[3], local[3], last = command->dimensions - 1;
    for (size_t d = 0; d < command->dimensions; ++d) {
        global[d] = command->global[last - d];
        local[d] = command->local[last - d];
    }
    cl_int error = set_arguments(lane, command);
    if (error != CL_SUCCESS)
        return error;
    return of(lane)->enqueue_kernel(lane->queue, command->kernel, (cl_uint)command->dimensions, NULL, global,
                                    command->kind == ND_RANGE ? local : NULL, 0, NULL, NULL);
}

const struct way syclsched_way_opencl = {submit,  fence,  flush,    status, wait,
                                         delete, start_ns, end_ns, perform, perform_parts};
