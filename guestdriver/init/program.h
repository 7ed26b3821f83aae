/* SPDX-License-Identifier: Apache-2.0 */
/* A running program, its standard streams relayed over the link. */
#ifndef PARACUDA_PROGRAM_H
#define PARACUDA_PROGRAM_H

#include "job.h"

/*
 * program_run runs the job's program to its end and returns its exit code as a
 * shell has it: 128 and the signal's number if one ended it, 126 or 127 if it
 * could not be started. It returns -1 if the host went away.
 */
int program_run(const struct job *job, int link);

#endif
