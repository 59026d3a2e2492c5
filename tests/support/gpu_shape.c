/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenCL loader layer for tests: it shows the devices of one platform as GPUs with memory of their own.
 *
 * The platform is the one whose name, or whose driver's path, contains the value of SYCLSCHED_TEST_GPU_SHAPE. Its devices
 * have type GPU and no memory unified with the host's, and their kernels run where they always ran.
 *
 * Device allocations (unified shared memory) have made-up addresses in a range that no thread may access, so that
 * memory which only devices may access faults when the host accesses it, with a message. The layer puts the real
 * addresses in their place where OpenCL takes them: kernel arguments (also inside structures passed by value), copies,
 * fills and queries. Addresses are not used twice, so that those of freed memory are found out. Pointers that lie in
 * memory are not replaced: a kernel that follows one faults.
 *
 * All allocations are of the driver's kind host: parts of a GPU reach all of its memory, those of the FPGA emulator only
 * what was allocated for them.
 *
 * In the other direction, a pointer passed as a kernel's argument must be to unified shared memory of the kernel's
 * context: a device with memory of its own cannot follow a pointer to the host's memory or to another context's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_opencl_layer.h"

typedef uint64_t cl_bitfield;
typedef struct opaque_queue *cl_command_queue;
typedef struct opaque_kernel *cl_kernel;
typedef struct opaque_event *cl_event;

enum {
    CL_DEVICE_NOT_FOUND = -1,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_INVALID_ARG_VALUE = -50,
    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_KERNEL_CONTEXT = 0x1193,
    CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL = 0x4194,
    CL_MEM_TYPE_UNKNOWN_INTEL = 0x4196,
    CL_MEM_TYPE_DEVICE_INTEL = 0x4198,
    CL_MEM_TYPE_SHARED_INTEL = 0x4199,
    CL_MEM_ALLOC_TYPE_INTEL = 0x419A,
    CL_MEM_ALLOC_BASE_PTR_INTEL = 0x419B,
    CL_MEM_ALLOC_DEVICE_INTEL = 0x419D
};
enum { TYPE_DEFAULT = 1 << 0, TYPE_GPU = 1 << 2 };
static const cl_bitfield TYPE_ALL = 0xFFFFFFFF;

typedef cl_int (*device_ids_fn)(cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *);
typedef cl_int (*set_arg_fn)(cl_kernel, cl_uint, size_t, const void *);
typedef void *(*host_alloc_fn)(cl_context, const cl_bitfield *, size_t, cl_uint, cl_int *);
typedef cl_int (*free_fn)(cl_context, void *);
typedef cl_int (*alloc_info_fn)(cl_context, const void *, cl_uint, size_t, void *, size_t *);
typedef cl_int (*set_pointer_fn)(cl_kernel, cl_uint, const void *);
typedef cl_int (*memcpy_fn)(cl_command_queue, cl_uint, void *, const void *, size_t, cl_uint, const cl_event *,
                            cl_event *);
typedef cl_int (*fill_fn)(cl_command_queue, void *, const void *, size_t, size_t, cl_uint, const cl_event *,
                          cl_event *);
typedef cl_int (*set_fn)(cl_command_queue, void *, cl_int, size_t, cl_uint, const cl_event *, cl_event *);
typedef cl_int (*range_fn)(cl_command_queue, const void *, size_t, cl_bitfield, cl_uint, const cl_event *, cl_event *);
typedef cl_int (*advise_fn)(cl_command_queue, const void *, size_t, cl_uint, cl_uint, const cl_event *, cl_event *);

static const char *fragment = ""; /* of the platform's name or driver; empty: no platform is meant */

/* Is this the platform whose devices are shown as GPUs? */
static int is_meant(cl_platform_id platform)
{
    char name[512] = "";
    Dl_info driver;

    if (*fragment == 0 || platform == NULL)
        return 0;
    if (((get_info_fn)target[GetPlatformInfo])(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) == CL_SUCCESS &&
        strstr(name, fragment) != NULL)
        return 1;
    /* cl_khr_icd: a platform begins with the address of its driver's dispatch table */
    return dladdr(**(void ***)platform, &driver) != 0 && strstr(driver.dli_fname, fragment) != NULL;
}

/* --- The device's type and properties ---------------------------------------------------------- */

static cl_int device_ids(cl_platform_id platform, cl_bitfield type, cl_uint most, cl_device_id *devices, cl_uint *found)
{
    if (is_meant(platform)) {
        if ((type & (TYPE_DEFAULT | TYPE_GPU)) == 0) {
            if (found != NULL)
                *found = 0;
            return CL_DEVICE_NOT_FOUND;
        }
        type = TYPE_ALL;
    }
    return ((device_ids_fn)target[GetDeviceIDs])(platform, type, most, devices, found);
}

static cl_int device_info(void *device, cl_uint name, size_t size, void *value, size_t *size_ret)
{
    get_info_fn info = (get_info_fn)target[GetDeviceInfo];
    cl_int status = info(device, name, size, value, size_ret);
    cl_platform_id platform = NULL;

    if (status != CL_SUCCESS || value == NULL ||
        (name != CL_DEVICE_TYPE && name != CL_DEVICE_HOST_UNIFIED_MEMORY &&
         name != CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL) ||
        info(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) != CL_SUCCESS || !is_meant(platform))
        return status;
    if (name == CL_DEVICE_TYPE)
        *(cl_bitfield *)value = TYPE_GPU;
    else if (name == CL_DEVICE_HOST_UNIFIED_MEMORY)
        *(cl_uint *)value = 0;
    else
        *(cl_bitfield *)value = 0;
    return status;
}

/* --- Made-up addresses of device allocations ---------------------------------------------------- */

static const size_t RANGE = (size_t)1 << 43; /* more than all allocations of a process together */
static const size_t PAGE = 1 << 16;          /* at least the alignment that anybody asks for */

struct allocation {
    char *shown, *real; /* equal for memory of kind shared */
    size_t size;
    cl_device_id device;
    cl_uint type;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations; /* in the order of their shown addresses */
static size_t n_allocations, room;
static char *range, *next_shown;
static struct sigaction previous_action;

/* Say that the host accessed a device's memory, then do what would have been done without this layer. */
static void on_fault(int number, siginfo_t *fault, void *context)
{
    static const char said[] = "gpu_shape: the host accessed memory of the GPU-shaped device, or a kernel accessed it "
                               "through a pointer that lies in memory\n";
    char *at = fault->si_addr;

    (void)context;
    (void)number;
    if (at >= range && at < range + RANGE && write(STDERR_FILENO, said, sizeof said - 1) < 0)
        _exit(1);
    sigaction(SIGSEGV, &previous_action, NULL); /* the access is repeated, and faults again */
}

static int is_shown(const void *pointer)
{
    return range != NULL && (const char *)pointer >= range && (const char *)pointer < range + RANGE;
}

/* Return the number of allocations at or below an address. */
static size_t count_up_to(const char *pointer)
{
    size_t low = 0, high = n_allocations;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (allocations[middle].shown <= pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Return the index of the allocation that a shown address lies in, or at whose end; -1 if in none. */
static ptrdiff_t index_of(const char *pointer)
{
    size_t count = count_up_to(pointer);

    if (count == 0 || pointer > allocations[count - 1].shown + allocations[count - 1].size)
        return -1;
    if (pointer == allocations[count - 1].shown + allocations[count - 1].size && !is_shown(pointer))
        return -1; /* where memory of another kind may begin */
    return (ptrdiff_t)count - 1;
}

/* Reserve the range of made-up addresses; return whether there is one. */
static int has_range(void)
{
    if (range == NULL) {
        char *made = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made != MAP_FAILED) {
            struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
            range = made;
            next_shown = made + PAGE;
            sigaction(SIGSEGV, &action, &previous_action);
        }
    }
    return range != NULL;
}

/* Add an allocation to the table, that of a device's own memory at a new address; return null if there is no room. */
static void *show(struct allocation made)
{
    size_t taken = (made.size / PAGE + 2) * PAGE; /* at least one page between two allocations belongs to none */

    pthread_mutex_lock(&lock);
    if (n_allocations == room) {
        size_t more = room == 0 ? 1024 : 2 * room;
        struct allocation *grown = realloc(allocations, more * sizeof *grown);
        if (grown != NULL) {
            allocations = grown;
            room = more;
        }
    }
    if (n_allocations == room)
        made.shown = NULL;
    else if (made.type == CL_MEM_TYPE_SHARED_INTEL)
        made.shown = made.real;
    else if (has_range() && (size_t)(range + RANGE - next_shown) > taken) {
        made.shown = next_shown;
        next_shown += taken;
    }
    if (made.shown != NULL) {
        size_t at = count_up_to(made.shown);
        memmove(allocations + at + 1, allocations + at, (n_allocations++ - at) * sizeof *allocations);
        allocations[at] = made;
    }
    pthread_mutex_unlock(&lock);
    return made.shown;
}

/* Replace a shown address by the real one; return whether the bytes from there on are allocated. */
static int to_real(const void **pointer, size_t bytes)
{
    const char *shown = *pointer;
    int right = 1;

    if (!is_shown(shown))
        return 1;
    pthread_mutex_lock(&lock);
    ptrdiff_t at = index_of(shown);
    if (at < 0 || bytes > allocations[at].size - (size_t)(shown - allocations[at].shown))
        right = 0;
    else
        *pointer = allocations[at].real + (shown - allocations[at].shown);
    pthread_mutex_unlock(&lock);
    return right;
}

static cl_int refuse(const char *what, const void *pointer, cl_int status)
{
    fprintf(stderr, "gpu_shape: %s (%p)\n", what, pointer);
    return status;
}

/* --- The functions of cl_intel_unified_shared_memory -------------------------------------------- */

enum { DEVICE_ALLOC, SHARED_ALLOC, HOST_ALLOC, FREE, BLOCKING_FREE, ALLOC_INFO, SET_POINTER, MEMCPY, MEMFILL, MEMSET, MIGRATE, ADVISE, N_WRAPPED };
static entry_point real_function[N_WRAPPED];

static void *allocate(cl_context context, cl_device_id device, size_t size, cl_uint alignment, cl_uint type,
                      cl_int *error)
{
    void *real = ((host_alloc_fn)real_function[HOST_ALLOC])(context, NULL, size, alignment, error);
    void *shown = real == NULL ? NULL : show((struct allocation){NULL, real, size, device, type});

    if (real != NULL && shown == NULL) {
        ((free_fn)real_function[FREE])(context, real);
        if (error != NULL)
            *error = CL_OUT_OF_HOST_MEMORY;
    }
    return shown;
}

static void *device_alloc(cl_context context, cl_device_id device, const cl_bitfield *properties, size_t size,
                          cl_uint alignment, cl_int *error)
{
    (void)properties; /* hints */
    return allocate(context, device, size, alignment, CL_MEM_TYPE_DEVICE_INTEL, error);
}

static void *shared_alloc(cl_context context, cl_device_id device, const cl_bitfield *properties, size_t size,
                          cl_uint alignment, cl_int *error)
{
    (void)properties;
    return allocate(context, device, size, alignment, CL_MEM_TYPE_SHARED_INTEL, error);
}

static cl_int free_with(free_fn release, cl_context context, void *pointer)
{
    void *real = is_shown(pointer) ? NULL : pointer;

    pthread_mutex_lock(&lock);
    ptrdiff_t at = index_of(pointer);
    if (at >= 0 && allocations[at].shown == pointer) {
        real = allocations[at].real;
        memmove(allocations + at, allocations + at + 1, (--n_allocations - (size_t)at) * sizeof *allocations);
    }
    pthread_mutex_unlock(&lock);
    if (real == NULL && pointer != NULL)
        return refuse("freed, but not allocated", pointer, CL_INVALID_VALUE);
    return release(context, real);
}

static cl_int mem_free(cl_context context, void *pointer)
{
    return free_with((free_fn)real_function[FREE], context, pointer);
}

static cl_int blocking_free(cl_context context, void *pointer)
{
    return free_with((free_fn)real_function[BLOCKING_FREE], context, pointer);
}

static cl_int alloc_info(cl_context context, const void *pointer, cl_uint name, size_t size, void *value,
                         size_t *size_ret)
{
    const void *real = pointer;

    if (!to_real(&real, 0))
        real = NULL; /* freed: the driver says that it knows nothing about null */
    cl_int status = ((alloc_info_fn)real_function[ALLOC_INFO])(context, real, name, size, value, size_ret);
    if (status == CL_SUCCESS && value != NULL && real != NULL) {
        pthread_mutex_lock(&lock);
        ptrdiff_t at = index_of(pointer);
        if (at >= 0 && name == CL_MEM_ALLOC_TYPE_INTEL)
            *(cl_uint *)value = allocations[at].type;
        else if (at >= 0 && name == CL_MEM_ALLOC_BASE_PTR_INTEL)
            *(void **)value = allocations[at].shown;
        else if (at >= 0 && name == CL_MEM_ALLOC_DEVICE_INTEL)
            *(cl_device_id *)value = allocations[at].device;
        pthread_mutex_unlock(&lock);
    }
    return status;
}

static cl_context context_of(cl_kernel kernel)
{
    cl_context context = NULL;

    ((get_info_fn)target[GetKernelInfo])(kernel, CL_KERNEL_CONTEXT, sizeof context, &context, NULL);
    return context;
}

static cl_int set_pointer(cl_kernel kernel, cl_uint index, const void *pointer)
{
    cl_uint type = CL_MEM_TYPE_UNKNOWN_INTEL;
    const void *real = pointer;

    if (!to_real(&real, 0))
        return refuse("a kernel's argument points to freed memory, or out of an array", pointer, CL_INVALID_ARG_VALUE);
    /* A null pointer is that of an array without elements. */
    if (real != NULL && (((alloc_info_fn)real_function[ALLOC_INFO])(context_of(kernel), real, CL_MEM_ALLOC_TYPE_INTEL,
                                                                   sizeof type, &type, NULL) != CL_SUCCESS ||
                         type == CL_MEM_TYPE_UNKNOWN_INTEL))
        return refuse("a kernel's argument points to memory that the GPU-shaped device cannot access", pointer,
                      CL_INVALID_ARG_VALUE);
    return ((set_pointer_fn)real_function[SET_POINTER])(kernel, index, real);
}

/* Set an argument passed by value, with real addresses in place of those shown in it. */
static cl_int set_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    set_arg_fn set = (set_arg_fn)target[SetKernelArg];
    const void *words[512];
    size_t count = size / sizeof words[0], found = 0;

    if (range == NULL || value == NULL || count == 0 || size > sizeof words)
        return set(kernel, index, size, value);
    memcpy(words, value, size);
    for (size_t i = 0; i < count; ++i)
        found += (size_t)is_shown(words[i]);
    if (found == 0 || !is_meant(platform_of(context_of(kernel))))
        return set(kernel, index, size, value);
    /* A word that is no address of an allocation may be padding, which has any value: a kernel faults if it follows it. */
    for (size_t i = 0; i < count; ++i)
        (void)to_real(&words[i], 0);
    return set(kernel, index, size, words);
}

static const char OUTSIDE[] = "a copy, fill or hint is not within allocated memory";

static cl_int enqueue_memcpy(cl_command_queue queue, cl_uint blocking, void *to, const void *from, size_t size,
                             cl_uint n_events, const cl_event *events, cl_event *event)
{
    const void *real_to = to, *real_from = from;

    if (!to_real(&real_to, size))
        return refuse(OUTSIDE, to, CL_INVALID_VALUE);
    if (!to_real(&real_from, size))
        return refuse(OUTSIDE, from, CL_INVALID_VALUE);
    return ((memcpy_fn)real_function[MEMCPY])(queue, blocking, (void *)real_to, real_from, size, n_events, events,
                                              event);
}

static cl_int enqueue_fill(cl_command_queue queue, void *to, const void *pattern, size_t pattern_size, size_t size,
                           cl_uint n_events, const cl_event *events, cl_event *event)
{
    const void *real = to;

    if (!to_real(&real, size))
        return refuse(OUTSIDE, to, CL_INVALID_VALUE);
    return ((fill_fn)real_function[MEMFILL])(queue, (void *)real, pattern, pattern_size, size, n_events, events, event);
}

static cl_int enqueue_set(cl_command_queue queue, void *to, cl_int value, size_t size, cl_uint n_events,
                          const cl_event *events, cl_event *event)
{
    const void *real = to;

    if (!to_real(&real, size))
        return refuse(OUTSIDE, to, CL_INVALID_VALUE);
    return ((set_fn)real_function[MEMSET])(queue, (void *)real, value, size, n_events, events, event);
}

static cl_int enqueue_migrate(cl_command_queue queue, const void *from, size_t size, cl_bitfield flags,
                              cl_uint n_events, const cl_event *events, cl_event *event)
{
    const void *real = from;

    if (!to_real(&real, size))
        return refuse(OUTSIDE, from, CL_INVALID_VALUE);
    return ((range_fn)real_function[MIGRATE])(queue, real, size, flags, n_events, events, event);
}

static cl_int enqueue_advise(cl_command_queue queue, const void *at, size_t size, cl_uint advice, cl_uint n_events,
                             const cl_event *events, cl_event *event)
{
    const void *real = at;

    if (!to_real(&real, size))
        return refuse(OUTSIDE, at, CL_INVALID_VALUE);
    return ((advise_fn)real_function[ADVISE])(queue, real, size, advice, n_events, events, event);
}

static const struct {
    const char *name;
    entry_point function;
} wrapped[N_WRAPPED] = {
    [DEVICE_ALLOC] = {"clDeviceMemAllocINTEL", (entry_point)device_alloc},
    [SHARED_ALLOC] = {"clSharedMemAllocINTEL", (entry_point)shared_alloc},
    [HOST_ALLOC] = {"clHostMemAllocINTEL", NULL},
    [FREE] = {"clMemFreeINTEL", (entry_point)mem_free},
    [BLOCKING_FREE] = {"clMemBlockingFreeINTEL", (entry_point)blocking_free},
    [ALLOC_INFO] = {"clGetMemAllocInfoINTEL", (entry_point)alloc_info},
    [SET_POINTER] = {"clSetKernelArgMemPointerINTEL", (entry_point)set_pointer},
    [MEMCPY] = {"clEnqueueMemcpyINTEL", (entry_point)enqueue_memcpy},
    [MEMFILL] = {"clEnqueueMemFillINTEL", (entry_point)enqueue_fill},
    [MEMSET] = {"clEnqueueMemsetINTEL", (entry_point)enqueue_set},
    [MIGRATE] = {"clEnqueueMigrateMemINTEL", (entry_point)enqueue_migrate},
    [ADVISE] = {"clEnqueueMemAdviseINTEL", (entry_point)enqueue_advise},
};

static entry_point extension(cl_platform_id platform, const char *name)
{
    get_extension_fn get = (get_extension_fn)target[GetExtensionFunctionAddressForPlatform];
    entry_point found = get(platform, name);

    if (found == NULL || name == NULL || !is_meant(platform))
        return found;
    for (int i = 0; i < N_WRAPPED; ++i)
        if (wrapped[i].function != NULL && strcmp(name, wrapped[i].name) == 0) {
            /* Others of these functions are called from here whether or not the runtime asked for them. */
            for (int j = 0; j < N_WRAPPED; ++j)
                real_function[j] = get(platform, wrapped[j].name);
            return wrapped[i].function;
        }
    return found;
}

static void fill_layer(void)
{
    const char *asked = getenv("SYCLSCHED_TEST_GPU_SHAPE");

    fragment = asked == NULL ? "" : asked;
    layer[GetDeviceIDs] = (entry_point)device_ids;
    layer[GetDeviceInfo] = (entry_point)device_info;
    layer[SetKernelArg] = (entry_point)set_arg;
    layer[GetExtensionFunctionAddressForPlatform] = (entry_point)extension;
}
