/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refuse CALL[,CALL...] PROGRAM ARGS... runs a program for which these system calls don't exist, as
 * some containers do: they answer EPERM. What it starts can't make them either.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct call {
	const char *name;
	unsigned number;
} calls[] = {
	{ "memfd_create", SYS_memfd_create },
	{ "seccomp", SYS_seccomp },
	{ "landlock_create_ruleset", 444 },
	{ "unshare", SYS_unshare },
};

static unsigned number_of(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].number;
	fprintf(stderr, "refuse: no call %s\n", name);
	exit(2);
}

static void refuse(unsigned number)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(lines) / sizeof(*lines), lines };

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("refuse");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: refuse CALL[,CALL...] PROGRAM ARGS...\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		perror("refuse");
		return 2;
	}
	for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ","))
		refuse(number_of(name));
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
