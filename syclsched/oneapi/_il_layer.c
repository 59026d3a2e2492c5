/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenCL loader layer that makes OpenCL 1.2 platforms accept SPIR-V.
 *
 * SYCL runtimes pass SPIR-V to clCreateProgramWithIL, which an OpenCL 1.2 platform (the FPGA emulator is one) refuses
 * with CL_INVALID_OPERATION although it has the same function as clCreateProgramWithILKHR (cl_khr_il_program). This
 * layer repeats a refused call through that extension. All other calls pass through unchanged.
 */
#include "_opencl_layer.h"

typedef cl_program (*create_with_il_fn)(cl_context context, const void *il, size_t length, cl_int *error);

/* Return the platform's clCreateProgramWithILKHR, or null if it has none. */
static create_with_il_fn il_extension_of(cl_context context)
{
    cl_platform_id platform = platform_of(context);
    get_extension_fn extension = (get_extension_fn)target[GetExtensionFunctionAddressForPlatform];

    return platform == NULL ? NULL : (create_with_il_fn)extension(platform, "clCreateProgramWithILKHR");
}

static cl_program create_program_with_il(cl_context context, const void *il, size_t length, cl_int *error)
{
    cl_int status = CL_SUCCESS;
    cl_program program = ((create_with_il_fn)target[CreateProgramWithIL])(context, il, length, &status);

    if (status == CL_INVALID_OPERATION) {
        create_with_il_fn with_il_khr = il_extension_of(context);
        if (with_il_khr != NULL)
            program = with_il_khr(context, il, length, &status);
    }
    if (error != NULL)
        *error = status;
    return program;
}

static void fill_layer(void)
{
    layer[CreateProgramWithIL] = (entry_point)create_program_with_il;
}
