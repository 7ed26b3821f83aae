/* SPDX-License-Identifier: Apache-2.0 */
/* What container engines know of the GPU. */
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "system.h"

#define SPEC "/etc/cdi/paracuda.json"
#define REWRITE "paracuda-cdi " SPEC

/* Containers have namespaces of their own; that of a VM's first process is known. */
static bool in_container(void)
{
	char namespace[64];

	link_name(at("/proc/self/ns/pid").text, namespace, sizeof(namespace));
	return namespace[0] && strcmp(namespace, "pid:[4026531836]");
}

void check_containers(struct finding *f)
{
	struct path spec = at(SPEC);
	char line[256];
	int status;

	if (in_container()) {
		good(f, "this is one");
		return;
	}
	if (!exists(spec.text)) {
		warn(f, REWRITE, "no " SPEC ": engines don't know paracuda.dev/gpu");
		return;
	}
	setenv("PARACUDA_SPEC", spec.text, 1);
	status = first_line("unset LD_LIBRARY_PATH LD_PRELOAD\n"
			    "s=$(paracuda-cdi 2>&1) || { echo \"$s\"; exit 3; }\n"
			    "[ \"$s\" = \"$(cat \"$PARACUDA_SPEC\")\" ]",
			    line, sizeof(line));
	if (status == 3 && strstr(line, "not found"))
		bad(f, REINSTALL, "there is no paracuda-cdi");
	else if (status == 3)
		bad(f, "paracuda-doctor library channel computation", "%s", line);
	else if (status)
		warn(f, REWRITE, SPEC " isn't of the GPUs and files that are here now");
	else
		good(f, SPEC " names the GPUs");
}
