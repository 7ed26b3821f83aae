/* SPDX-License-Identifier: Apache-2.0 */
/* Checks have processes of their own: a library or a driver may crash or hang. */
#ifndef PARACUDA_DOCTOR_APART_H
#define PARACUDA_DOCTOR_APART_H

#include "report.h"

/* Carries out a check. One that crashes, or takes longer than a minute, is a problem. */
void apart(void (*check)(struct finding *f), struct finding *f);

#endif
