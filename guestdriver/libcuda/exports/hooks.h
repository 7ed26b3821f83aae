/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_HOOKS_H
#define PARACUDA_HOOKS_H

/* Connects the hooks of lower rooms with the rooms above. Called before the channel opens. */
void hooks_set(void);

#endif
