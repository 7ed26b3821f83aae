/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a libcuda.so.1 with the fake worker built in, for real programs to run against. */
#include "fake_worker.h"

__attribute__((constructor)) static void install(void)
{
	fake_install();
}
