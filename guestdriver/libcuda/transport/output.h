/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels print (printf, assert) comes through the arena's output ring. */
#ifndef PARACUDA_OUTPUT_H
#define PARACUDA_OUTPUT_H

/* Writes what has arrived to this process's standard output and standard error. */
void output_drain(void);

#endif
