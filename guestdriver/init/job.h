/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job says what to run. On the link it is a list of "key=value" strings, each
 * ended by a zero byte, so that a value may hold anything a program can be given:
 *
 *   module=FILE       a kernel module to load, in this order
 *   parameters=TEXT   parameters of the module named last
 *   wait=FILE         a device that must appear before the program starts
 *   dir=DIRECTORY     the program's current directory
 *   env=NAME=VALUE    its environment
 *   arg=TEXT          its name and arguments
 *   stdin=null        it reads nothing
 */
#ifndef PARACUDA_JOB_H
#define PARACUDA_JOB_H

#include <stddef.h>

struct module {
	const char *file;
	const char *parameters;
};

struct job {
	struct module *modules;
	size_t module_count;
	const char *wait;
	const char *dir;
	char **env; /* ends in NULL */
	char **args;
	int no_stdin;
};

/* job_parse reads the list in text, to which the job then points. */
int job_parse(struct job *job, char *text, size_t len);

#endif
