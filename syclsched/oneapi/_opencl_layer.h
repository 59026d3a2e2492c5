/* SPDX-License-Identifier: Apache-2.0
 *
 * What OpenCL loader layers are built from: types, constants, the dispatch table, and a layer's two entry points.
 *
 * These are declared here instead of taken from the OpenCL headers, so that building needs only a C compiler. The
 * declarations are binary interface fixed by the OpenCL specification and by the loader's cl_loader_layers extension:
 * the order of the dispatch table, the types' sizes and some constants.
 */
#ifndef SYCLSCHED_OPENCL_LAYER_H
#define SYCLSCHED_OPENCL_LAYER_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef struct opaque_platform *cl_platform_id;
typedef struct opaque_device *cl_device_id;
typedef struct opaque_context *cl_context;
typedef struct opaque_program *cl_program;
typedef void (*entry_point)(void);

enum {
    CL_SUCCESS = 0,
    CL_INVALID_VALUE = -30,
    CL_INVALID_OPERATION = -59,
    CL_DEVICE_PLATFORM = 0x1031,
    CL_CONTEXT_DEVICES = 0x1081,
    CL_LAYER_API_VERSION = 0x4240,
    CL_LAYER_API_VERSION_100 = 100
};

/* The dispatch table shared by loader, drivers and layers (cl_khr_icd), in its published order, as far as needed. */
enum slot {
    /* OpenCL 1.0 */
    GetPlatformIDs, GetPlatformInfo, GetDeviceIDs, GetDeviceInfo, CreateContext, CreateContextFromType, RetainContext,
    ReleaseContext, GetContextInfo, CreateCommandQueue, RetainCommandQueue, ReleaseCommandQueue, GetCommandQueueInfo,
    SetCommandQueueProperty, CreateBuffer, CreateImage2D, CreateImage3D, RetainMemObject, ReleaseMemObject,
    GetSupportedImageFormats, GetMemObjectInfo, GetImageInfo, CreateSampler, RetainSampler, ReleaseSampler,
    GetSamplerInfo, CreateProgramWithSource, CreateProgramWithBinary, RetainProgram, ReleaseProgram, BuildProgram,
    UnloadCompiler, GetProgramInfo, GetProgramBuildInfo, CreateKernel, CreateKernelsInProgram, RetainKernel,
    ReleaseKernel, SetKernelArg, GetKernelInfo, GetKernelWorkGroupInfo, WaitForEvents, GetEventInfo, RetainEvent,
    ReleaseEvent, GetEventProfilingInfo, Flush, Finish, EnqueueReadBuffer, EnqueueWriteBuffer, EnqueueCopyBuffer,
    EnqueueReadImage, EnqueueWriteImage, EnqueueCopyImage, EnqueueCopyImageToBuffer, EnqueueCopyBufferToImage,
    EnqueueMapBuffer, EnqueueMapImage, EnqueueUnmapMemObject, EnqueueNDRangeKernel, EnqueueTask, EnqueueNativeKernel,
    EnqueueMarker, EnqueueWaitForEvents, EnqueueBarrier, GetExtensionFunctionAddress, CreateFromGLBuffer,
    CreateFromGLTexture2D, CreateFromGLTexture3D, CreateFromGLRenderbuffer, GetGLObjectInfo, GetGLTextureInfo,
    EnqueueAcquireGLObjects, EnqueueReleaseGLObjects, GetGLContextInfoKHR,
    /* cl_khr_d3d10_sharing (six places, used on Windows only, present everywhere) */
    D3D10First, D3D10Last = D3D10First + 5,
    /* OpenCL 1.1 */
    SetEventCallback, CreateSubBuffer, SetMemObjectDestructorCallback, CreateUserEvent, SetUserEventStatus,
    EnqueueReadBufferRect, EnqueueWriteBufferRect, EnqueueCopyBufferRect,
    /* cl_ext_device_fission, cl_khr_gl_event */
    CreateSubDevicesEXT, RetainDeviceEXT, ReleaseDeviceEXT, CreateEventFromGLsyncKHR,
    /* OpenCL 1.2 */
    CreateSubDevices, RetainDevice, ReleaseDevice, CreateImage, CreateProgramWithBuiltInKernels, CompileProgram,
    LinkProgram, UnloadPlatformCompiler, GetKernelArgInfo, EnqueueFillBuffer, EnqueueFillImage,
    EnqueueMigrateMemObjects, EnqueueMarkerWithWaitList, EnqueueBarrierWithWaitList,
    GetExtensionFunctionAddressForPlatform, CreateFromGLTexture,
    /* cl_khr_d3d11_sharing (six), cl_khr_dx9_media_sharing (four) */
    D3D11First, D3D11Last = D3D11First + 5, DX9First, DX9Last = DX9First + 3,
    /* cl_khr_egl_image, cl_khr_egl_event */
    CreateFromEGLImageKHR, EnqueueAcquireEGLObjectsKHR, EnqueueReleaseEGLObjectsKHR, CreateEventFromEGLSyncKHR,
    /* OpenCL 2.0, cl_khr_sub_groups */
    CreateCommandQueueWithProperties, CreatePipe, GetPipeInfo, SVMAlloc, SVMFree, EnqueueSVMFree, EnqueueSVMMemcpy,
    EnqueueSVMMemFill, EnqueueSVMMap, EnqueueSVMUnmap, CreateSamplerWithProperties, SetKernelArgSVMPointer,
    SetKernelExecInfo, GetKernelSubGroupInfoKHR,
    /* OpenCL 2.1 */
    CloneKernel, CreateProgramWithIL,
    SLOTS_USED
};

typedef cl_int (*get_info_fn)(void *object, cl_uint name, size_t size, void *value, size_t *size_ret);
typedef entry_point (*get_extension_fn)(cl_platform_id platform, const char *name);

static entry_point target[SLOTS_USED]; /* the next layer, or the loader itself */
static entry_point layer[SLOTS_USED];  /* a null entry means "pass through" */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED cl_int clGetLayerInfo(cl_uint name, size_t size, void *value, size_t *size_ret);
EXPORTED cl_int clInitLayer(cl_uint entries, const entry_point *target_dispatch, cl_uint *entries_ret,
                            const entry_point **layer_dispatch);

/* Set the layer's own entries; each layer defines it. */
static void fill_layer(void);

/* Return the platform of a context's devices, or null if it cannot be told. */
static cl_platform_id platform_of(cl_context context)
{
    get_info_fn context_info = (get_info_fn)target[GetContextInfo];
    get_info_fn device_info = (get_info_fn)target[GetDeviceInfo];
    cl_device_id devices[256]; /* one context never holds more on any machine these layers are meant for */
    cl_platform_id platform = NULL;
    size_t bytes = 0;

    if (context_info(context, CL_CONTEXT_DEVICES, 0, NULL, &bytes) != CL_SUCCESS || bytes < sizeof devices[0] ||
        bytes > sizeof devices)
        return NULL;
    if (context_info(context, CL_CONTEXT_DEVICES, bytes, devices, NULL) != CL_SUCCESS)
        return NULL;
    if (device_info(devices[0], CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) != CL_SUCCESS)
        return NULL;
    return platform;
}

/* cl_loader_layers: return the interface version of this layer. */
cl_int clGetLayerInfo(cl_uint name, size_t size, void *value, size_t *size_ret)
{
    if (name != CL_LAYER_API_VERSION || (value != NULL && size < sizeof(cl_uint)))
        return CL_INVALID_VALUE;
    if (value != NULL)
        *(cl_uint *)value = CL_LAYER_API_VERSION_100;
    if (size_ret != NULL)
        *size_ret = sizeof(cl_uint);
    return CL_SUCCESS;
}

/* cl_loader_layers: the loader passes the dispatch table of the next layer and receives this layer's. */
cl_int clInitLayer(cl_uint entries, const entry_point *target_dispatch, cl_uint *entries_ret,
                   const entry_point **layer_dispatch)
{
    if (target_dispatch == NULL || entries_ret == NULL || layer_dispatch == NULL || entries < SLOTS_USED)
        return CL_INVALID_VALUE;
    for (unsigned i = 0; i < SLOTS_USED; ++i)
        target[i] = target_dispatch[i];
    fill_layer();
    *layer_dispatch = layer;
    *entries_ret = SLOTS_USED;
    return CL_SUCCESS;
}

#endif
