/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress by name, version and flag; every entry of its table is reachable. */
#include <dlfcn.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "devices/device.h"
#include "exports/procaddress.h"

static void want(const char *name, int version, cuuint64_t flags, void *address)
{
	void *got = (void *)1;
	int status = 9;

	CHECK_IS(0, cuGetProcAddress_v2(name, &got, version, flags, &status));
	CHECK_IS(0, status);
	CHECK(got == address);
	got = NULL;
	CHECK_IS(0, cuGetProcAddress(name, &got, version, flags));
	CHECK(got == address);
}

static void want_none(const char *name, int version, int want_status)
{
	void *got = (void *)1;
	int status = 9;

	CHECK_IS(0, cuGetProcAddress_v2(name, &got, version, 0, &status));
	CHECK(!got);
	CHECK_IS(want_status, status);
	CHECK_IS(0, cuGetProcAddress_v2(name, &got, version, 0, NULL));
	got = (void *)1;
	CHECK_IS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress(name, &got, version, 0));
	CHECK(got == (void *)1);
}

EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void *, size_t);
EXPORT CUresult cuLaunchKernel_ptsz(void);
EXPORT CUresult cuMemAlloc(void);
EXPORT CUresult cuArray3DCreate(void);

static void check_table(void)
{
	for (unsigned i = 0; i < procs_count; i++) {
		const struct proc_version *v = procs[i].legacy;

		CHECK(i == 0 || strcmp(procs[i - 1].name, procs[i].name) < 0);
		CHECK(v && v->version);
		for (; v->version; v++) {
			void *got = NULL;

			CHECK(v->symbol);
			CHECK(v->version <= DRIVER_VERSION);
			CHECK_IS(0, cuGetProcAddress(procs[i].name, &got, v->version, 1));
			CHECK(got == (void *)v->symbol);
		}
	}
	CHECK(procs_count > 470);
}

int main(void)
{
	void *p;

	want("cuGetProcAddress", 11030, 0, (void *)cuGetProcAddress);
	want("cuGetProcAddress", 11080, 0, (void *)cuGetProcAddress);
	want("cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2);
	want("cuMemAlloc", 2000, 0, (void *)cuMemAlloc);
	want("cuMemAlloc", 3020, 0, (void *)cuMemAlloc_v2);
	want("cuMemAlloc", 13000, 2, (void *)cuMemAlloc_v2);
	want("cuMemcpyHtoD", 6050, 2, (void *)cuMemcpyHtoD_v2);
	want("cuMemcpyHtoD", 12000, 2, (void *)cuMemcpyHtoD_v2_ptds);
	want("cuMemcpyHtoD", 12000, 1, (void *)cuMemcpyHtoD_v2);
	want("cuLaunchKernel", 13000, 2, (void *)cuLaunchKernel_ptsz);
	want("cuCtxCreate", 12040, 0, (void *)cuCtxCreate_v3);
	want("cuCtxCreate", 12050, 0, (void *)cuCtxCreate_v4);
	want("cuCtxGetDevice", 12090, 0, (void *)cuCtxGetDevice);
	want("cuCtxGetDevice", 13000, 0, (void *)cuCtxGetDevice_v2);
	want("cuGraphInstantiate", 11080, 0, (void *)cuGraphInstantiate_v2);
	want("cuGraphInstantiate", 12000, 0, (void *)cuGraphInstantiateWithFlags);
	want_none("cuNoSuchThing", 13000, 1);
	want_none("cuMemAlloc_v2", 13000, 1);
	want_none("cuLibraryLoadData", 11080, 2);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &p, 13010, 0, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &p, 12000, 3, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2(NULL, &p, 12000, 0, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", NULL, 12000, 0));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate());
	check_table();
	return 0;
}
