/* SPDX-License-Identifier: Apache-2.0 */
/* The files in a layer that end with the VM. */
#ifndef PARACUDA_LOST_H
#define PARACUDA_LOST_H

/*
 * lost_tell counts the files in the layer `upper`, which lies over dir, and sends the host their
 * number and the deepest directory that holds them all, if there are any. Hidden ones and
 * __pycache__ don't count: they are caches, which programs make again.
 */
void lost_tell(int link, const char *upper, const char *dir);

#endif
