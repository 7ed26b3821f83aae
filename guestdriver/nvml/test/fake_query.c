/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "fixture.h"

int main(void)
{
	return fwrite(fixture, sizeof(fixture), 1, stdout) != 1;
}
