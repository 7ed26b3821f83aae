/* SPDX-License-Identifier: Apache-2.0 */
/* Which libraries programs get, and whether nvidia-smi works with them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "paracuda_table.h"
#include "system.h"

typedef int ask_table(const void **table, const void *id);

/* Whether it is Paracuda's: no other has our table. */
static bool is_ours(ask_table *ask)
{
	static const uint8_t id[16] = { PARACUDA_TABLE_ID };
	const void *table = NULL;

	return ask && ask(&table, id) == 0 && table;
}

/* Finds what makes the loader take another library. */
static void blame(struct finding *f, const char *path)
{
	const char *preload = getenv("LD_PRELOAD"), *dirs = getenv("LD_LIBRARY_PATH");
	char real[PATH_MAX];

	if (preload && strstr(preload, "libcuda"))
		fixed_by(f, "unset LD_PRELOAD");
	else if (dirs && dirs[0])
		fixed_by(f, "unset LD_LIBRARY_PATH");
	else
		fixed_by(f, "apt-get remove $(dpkg -S %s | cut -d: -f1)",
			 realpath(path, real) ? real : path);
}

void check_library(struct finding *f)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	const char *why = library ? NULL : dlerror();
	ask_table *ask;
	Dl_info info;
	void *symbol;

	if (!library) {
		bad(f, REINSTALL, "%s", why);
		if (!strstr(why, "No such file"))
			blame(f, "libcuda.so.1");
		return;
	}
	symbol = dlsym(library, "cuGetExportTable");
	memcpy(&ask, &symbol, sizeof(ask));
	if (!symbol || !dladdr(symbol, &info))
		info.dli_fname = "libcuda.so.1";
	if (is_ours(ask)) {
		good(f, "programs get %s", info.dli_fname);
		return;
	}
	bad(f, "", "programs get %s, which is not Paracuda's", info.dli_fname);
	blame(f, info.dli_fname);
}

void check_nvidia_smi(struct finding *f)
{
	char line[256];
	int status = first_line("nvidia-smi -L 2>&1", line, sizeof(line));

	if (status == 127)
		warn(f, "apt-get install nvidia-smi", "none is installed");
	else if (status)
		bad(f, "paracuda-doctor library channel computation", "%s",
		    line[0] ? line : "nvidia-smi failed without a word");
	else
		good(f, "%s", line);
}
