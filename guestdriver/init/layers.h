/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the host's that the program can write to. */
#ifndef PARACUDA_LAYERS_H
#define PARACUDA_LAYERS_H

#include "job.h"

/*
 * layers_mount makes the job's places writable: the host's own where what is written is kept, and
 * layers in memory elsewhere. A layer that can't be had, but for that of /tmp, stays read-only.
 */
int layers_mount(const struct job *job);

/* layers_keep waits until what is kept has reached the host. */
int layers_keep(void);

/* layers_tell sends the host what ends with the VM. */
void layers_tell(int link);

/*
 * layers_library puts the files of the job's library in the directories where programs look that
 * were given a LD_LIBRARY_PATH of their own.
 */
void layers_library(const struct job *job);

#endif
