// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

DATA iota32<>+0(SB)/8, $0x0000000100000000
DATA iota32<>+8(SB)/8, $0x0000000300000002
DATA iota32<>+16(SB)/8, $0x0000000500000004
DATA iota32<>+24(SB)/8, $0x0000000700000006
GLOBL iota32<>(SB), RODATA|NOPTR, $32

DATA iota64<>+0(SB)/8, $0
DATA iota64<>+8(SB)/8, $1
DATA iota64<>+16(SB)/8, $2
DATA iota64<>+24(SB)/8, $3
GLOBL iota64<>(SB), RODATA|NOPTR, $32

DATA three32<>+0(SB)/8, $0x0000000300000003
DATA three32<>+8(SB)/8, $0x0000000300000003
DATA three32<>+16(SB)/8, $0x0000000300000003
DATA three32<>+24(SB)/8, $0x0000000300000003
GLOBL three32<>(SB), RODATA|NOPTR, $32

// func consecutive32AVX(addr *[32]uint32, n uint32) bool
TEXT ·consecutive32AVX(SB), NOSPLIT, $0-17
	MOVQ         addr+0(FP), SI
	MOVL         n+8(FP), AX
	VMOVD        AX, X1
	VPBROADCASTD X1, Y1
	VPMULLD      iota32<>(SB), Y1, Y2
	VPBROADCASTD (SI), Y3
	VPADDD       Y3, Y2, Y2
	VPSLLD       $3, Y1, Y1
	VPXOR        (SI), Y2, Y4
	VPADDD       Y1, Y2, Y2
	VPXOR        32(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDD       Y1, Y2, Y2
	VPXOR        64(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDD       Y1, Y2, Y2
	VPXOR        96(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPTEST       Y4, Y4
	SETEQ        ret+16(FP)
	VZEROUPPER
	RET

// func consecutive64AVX(addr *[32]uint64, n uint64) bool
TEXT ·consecutive64AVX(SB), NOSPLIT, $0-17
	MOVQ         addr+0(FP), SI
	VPBROADCASTQ n+8(FP), Y1
	VPMULUDQ     iota64<>(SB), Y1, Y2
	VPBROADCASTQ (SI), Y3
	VPADDQ       Y3, Y2, Y2
	VPSLLQ       $2, Y1, Y1
	VPXOR        (SI), Y2, Y4
	VPADDQ       Y1, Y2, Y2
	VPXOR        32(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDQ       Y1, Y2, Y2
	VPXOR        64(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDQ       Y1, Y2, Y2
	VPXOR        96(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDQ       Y1, Y2, Y2
	VPXOR        128(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDQ       Y1, Y2, Y2
	VPXOR        160(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDQ       Y1, Y2, Y2
	VPXOR        192(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPADDQ       Y1, Y2, Y2
	VPXOR        224(SI), Y2, Y5
	VPOR         Y5, Y4, Y4
	VPTEST       Y4, Y4
	SETEQ        ret+16(FP)
	VZEROUPPER
	RET

// func gather32AVX(d, addr *[32]uint32, base uintptr, off, last uint32) bool
TEXT ·gather32AVX(SB), NOSPLIT, $0-33
	MOVQ         d+0(FP), DI
	MOVQ         addr+8(FP), SI
	MOVQ         base+16(FP), BX
	MOVL         off+24(FP), AX
	VMOVD        AX, X1
	VPBROADCASTD X1, Y1
	MOVL         last+28(FP), AX
	VMOVD        AX, X2
	VPBROADCASTD X2, Y2
	VPADDD       (SI), Y1, Y4
	VPADDD       32(SI), Y1, Y5
	VPADDD       64(SI), Y1, Y6
	VPADDD       96(SI), Y1, Y7

	// All offsets are at most last if the greatest is.
	VPMAXUD  Y4, Y5, Y8
	VPMAXUD  Y6, Y7, Y9
	VPMAXUD  Y8, Y9, Y8
	VPMAXUD  Y8, Y2, Y8
	VPCMPEQD Y8, Y2, Y8
	VPMOVMSKB Y8, AX
	CMPL     AX, $-1
	JNE      no
	VPOR     Y4, Y5, Y8
	VPOR     Y6, Y7, Y9
	VPOR     Y8, Y9, Y8
	VPTEST   three32<>(SB), Y8
	JNE      no

	VPCMPEQD   Y11, Y11, Y11
	VPGATHERDD Y11, (BX)(Y4*1), Y12
	VMOVDQU    Y12, (DI)
	VPCMPEQD   Y11, Y11, Y11
	VPGATHERDD Y11, (BX)(Y5*1), Y12
	VMOVDQU    Y12, 32(DI)
	VPCMPEQD   Y11, Y11, Y11
	VPGATHERDD Y11, (BX)(Y6*1), Y12
	VMOVDQU    Y12, 64(DI)
	VPCMPEQD   Y11, Y11, Y11
	VPGATHERDD Y11, (BX)(Y7*1), Y12
	VMOVDQU    Y12, 96(DI)
	VZEROUPPER
	MOVB       $1, ret+32(FP)
	RET

no:
	VZEROUPPER
	MOVB $0, ret+32(FP)
	RET
