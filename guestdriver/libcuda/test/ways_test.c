/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is told of the ways among its GPUs: what the worker says, by its own numbers. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "devices/peers.h"
#include "fake_worker.h"
#include "paracuda_table.h"

/* The way from GPU to GPU, by the program's numbers: it has the worker's last two, reversed. */
static struct paracuda_inventory_pair *way(int from, int to)
{
	return &fake.pair[FAKE_PAIRED * (2 - from) + (2 - to)];
}

static int attribute(int what, int from, int to)
{
	int value = -1;

	CHECK_IS(CUDA_SUCCESS, cuDeviceGetP2PAttribute(&value, what, from, to));
	return value;
}

static void attributes(void)
{
	static const int unknown[] = {
		0, CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED + 1
	};
	int value;

	for (int what = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
	     what <= CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED; what++) {
		CHECK_IS(what == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 7 : 1,
			 attribute(what, 0, 1));
		CHECK_IS(0, attribute(what, 1, 0));
		CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, what, 0, 0));
		CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, what, 0, 2));
		CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, what, -1, 1));
	}
	for (int i = 0; i < 2; i++)
		CHECK_IS(CUDA_ERROR_INVALID_VALUE,
			 cuDeviceGetP2PAttribute(&value, unknown[i], 0, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuDeviceGetP2PAttribute(NULL, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	CHECK_IS(CUDA_SUCCESS, cuDeviceCanAccessPeer(&value, 0, 1));
	CHECK_IS(1, value);
	CHECK_IS(CUDA_SUCCESS, cuDeviceCanAccessPeer(&value, 1, 0));
	CHECK_IS(0, value);
	CHECK_IS(CUDA_SUCCESS, cuDeviceCanAccessPeer(&value, 0, 0));
	CHECK_IS(0, value);
}

static void atomics(void)
{
	const CUatomicOperation few[] = { CU_ATOMIC_OPERATION_CAS, CU_ATOMIC_OPERATION_INTEGER_ADD,
					  CU_ATOMIC_OPERATION_FLOAT_MAX };
	const CUatomicOperation none[] = { CU_ATOMIC_OPERATION_CAS, PARACUDA_ATOMIC_OPERATIONS };
	unsigned is[3] = { 77, 77, 77 };

	CHECK_IS(CUDA_SUCCESS, cuDeviceGetP2PAtomicCapabilities(is, few, 3, 0, 1));
	CHECK(is[0] == 109 && is[1] == 100 && is[2] == 112);
	/* The other way the driver has none to tell of. */
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuDeviceGetP2PAtomicCapabilities(is, few, 3, 1, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAtomicCapabilities(is, none, 2, 0, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAtomicCapabilities(is, few, 0, 0, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAtomicCapabilities(is, NULL, 1, 0, 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAtomicCapabilities(NULL, few, 1, 0, 1));
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAtomicCapabilities(is, few, 3, 0, 0));
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAtomicCapabilities(is, few, 3, 0, 2));
	/* Of the host's memory none is promised, as the attribute says. */
	CHECK_IS(CUDA_SUCCESS, cuDeviceGetHostAtomicCapabilities(is, few, 3, 0));
	CHECK(!is[0] && !is[1] && !is[2]);
}

/* NVML's part of it. */
static void ways(void)
{
	struct paracuda_ways w;

	CHECK_IS(CUDA_SUCCESS, device_ways(&w, 0));
	for (int kind = 0; kind < PARACUDA_P2P; kind++) {
		CHECK_IS(6, w.p2p[0][kind]);
		CHECK_IS(kind + 1, w.p2p[1][kind]);
		CHECK_IS(0, w.p2p[2][kind]);
	}
	CHECK_IS(CUDA_SUCCESS, device_ways(&w, 1));
	CHECK(!w.p2p[0][0] && !w.p2p[1][0]);
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE, device_ways(&w, 2));
}

/* The NVLinks and the fabric are those of the worker's GPU, by the program's number. */
static void links(void)
{
	struct paracuda_nvlinks l;
	struct paracuda_fabric f;

	for (int i = 0; i < 2; i++) {
		int gpu = 2 - i;

		CHECK_IS(CUDA_SUCCESS, device_nvlinks(&l, i));
		CHECK_IS(3, l.count);
		CHECK_IS(26000 + gpu, l.common_speed);
		CHECK(!l.link[0].named && l.link[1].named && !l.link[2].named);
		CHECK(!l.link[0].remote_link && l.link[1].remote_link == 7);
		memset(&f, 0xff, sizeof(f));
		CHECK_IS(CUDA_SUCCESS, device_fabric(&f, i));
		CHECK(f.cluster[0] == 0x80 && f.cluster[15] == gpu);
		CHECK(f.status == 1 && f.clique == 2 && f.health == 3);
		CHECK(f.state == 4 && f.summary == 5);
	}
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE, device_fabric(&f, 2));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, device_fabric(NULL, 0));
}

int main(void)
{
	setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
	fake.devices = FAKE_PAIRED;
	fake.linked = true;
	*way(0, 1) = (struct paracuda_inventory_pair){
		.access = 1, .atomics = 1, .arrays = 1, .performance = 7, .partial = 1
	};
	for (int i = 0; i < PARACUDA_ATOMIC_OPERATIONS; i++)
		way(0, 1)->atomic[i] = (uint16_t)(100 + i);
	for (int kind = 0; kind < PARACUDA_P2P; kind++) {
		way(0, 0)->p2p[kind] = 6;
		way(0, 1)->p2p[kind] = (uint8_t)(kind + 1);
	}
	way(1, 0)->atomic_result = CUDA_ERROR_NOT_SUPPORTED;
	fake_install();
	CHECK_IS(CUDA_SUCCESS, cuInit(0));
	attributes();
	atomics();
	ways();
	links();
	return 0;
}
