/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job says what to run. On the link it is a list of "key=value" strings, each
 * ended by a zero byte, so that a value may hold anything a program can be given:
 *
 *   module=FILE       a kernel module to load, in this order
 *   parameters=TEXT   parameters of the module named last
 *   wait=FILE         a device that must appear before the program starts
 *   dir=DIRECTORY     the program's current directory
 *   layer=DIRECTORY   the program can write there, and what it writes ends with the VM;
 * of these and the next, parents come first
 *   write=DIRECTORY   the same, but the host keeps what is written
 *   tag=TAG           of the directory named last: it comes by virtiofs under that tag
 *   library=DIRECTORY holds the libraries that stand for the driver's
 * over=DIRECTORY the program looks for them there too
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

/* A directory that the program can write to. */
struct place {
	const char *dir;
	const char *tag; /* or NULL */
	int keep;
};

struct job {
	struct module *modules;
	size_t module_count;
	const char *wait;
	const char *dir;
	struct place *places;
	size_t place_count;
	const char *library;
	const char **overs; /* where the program looks for libraries */
	size_t over_count;
	char **env; /* ends in NULL */
	char **args;
	int no_stdin;
};

/* job_parse reads the list in text, to which the job then points. */
int job_parse(struct job *job, char *text, size_t len);

#endif
