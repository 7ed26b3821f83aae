/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "exports/tools.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"

/*
 * The library that compute-sanitizer loads into a program. If a table is missing it crashes, before
 * main.
 */
#define SANITIZER "libsanitizer"

static bool is_sanitizer(const void *caller)
{
	const char *name;
	Dl_info info;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return false;
	name = strrchr(info.dli_fname, '/');
	return !strncmp(name ? name + 1 : info.dli_fname, SANITIZER, strlen(SANITIZER));
}

void tools_asked(const CUuuid *id, const void *caller)
{
	const uint8_t *u = (const uint8_t *)id->bytes;

	log_line("no export table %02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		 u[13], u[14], u[15]);
	if (is_sanitizer(caller))
		log_user("compute-sanitizer doesn't work in this VM, and crashes programs: "
			 "it needs NVIDIA's own driver; run it on the host");
}
