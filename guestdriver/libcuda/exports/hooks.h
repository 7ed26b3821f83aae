/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_HOOKS_H
#define PARACUDA_HOOKS_H

/* Tells the rooms below what the rooms above want to know. Before the channel opens. */
void hooks_set(void);

#endif
