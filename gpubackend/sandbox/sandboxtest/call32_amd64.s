// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func Call32(number uint32) int32
TEXT ·Call32(SB), NOSPLIT, $0-12
	MOVL number+0(FP), AX
	INT $0x80
	MOVL AX, ret+8(FP)
	RET
