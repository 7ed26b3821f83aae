// SPDX-License-Identifier: Apache-2.0

package decoded

// decoders are the instructions supported, by opcode.
var decoders map[string]decodeFunc

func init() {
	decoders = map[string]decodeFunc{
		// Integers and all types.
		"add": decodeArith, "sub": decodeArith, "mul": decodeArith, "min": decodeArith,
		"max": decodeArith,
		"mad": decodeMad, "mul24": decodeMul24, "mad24": decodeMul24, "div": decodeDivRem,
		"rem":  decodeDivRem,
		"addc": decodeCarryIn, "subc": decodeCarryIn, "madc": decodeCarryIn,
		"and": decodeLogic, "or": decodeLogic, "xor": decodeLogic,
		"not": decodeIntUnary, "cnot": decodeIntUnary, "neg": decodeIntUnary, "abs": decodeIntUnary,
		"popc": decodeIntUnary, "clz": decodeIntUnary, "brev": decodeIntUnary,
		"shl": decodeShift, "shr": decodeShift, "shf": decodeFunnel, "sad": decodeSad,
		"szext": decodeSzext,
		"bfind": decodeBfind, "bfe": decodeBfe, "bfi": decodeBfi, "fns": decodeFns,
		"bmsk": decodeBmsk,
		"prmt": decodePrmt, "lop3": decodeLop3, "dp4a": decodeDp, "dp2a": decodeDp,
		// Floating point.
		"fma": decodeFma, "rcp": decodeFunction1, "sqrt": decodeFunction1, "rsqrt": decodeFunction1,
		"sin": decodeFunction1, "cos": decodeFunction1, "lg2": decodeFunction1,
		"ex2":  decodeFunction1,
		"tanh": decodeFunction1, "copysign": decodeCopysign, "testp": decodeTestp,
		// Comparison, selection, movement.
		"setp": decodeSetp, "set": decodeSet, "selp": decodeSelp, "slct": decodeSlct,
		"mov": decodeMov, "cvt": decodeCvt, "cvta": decodeCvta, "isspacep": decodeIsspacep,
		// Memory.
		"ld": decodeLoad, "ldu": decodeLoad, "st": decodeStore, "atom": decodeAtom,
		"red":    decodeAtom,
		"membar": decodeFence, "fence": decodeFence, "cp": decodeCp,
		"prefetch": decodeNothing, "prefetchu": decodeNothing, "discard": decodeNothing,
		"applypriority": decodeNothing, "pmevent": decodeNothing, "setmaxnreg": decodeNothing,
		"griddepcontrol": decodeNothing,
		// Textures and surfaces.
		"tex": decodeTexture, "tld4": decodeGather, "txq": decodeQuery, "suq": decodeQuery,
		"suld": decodeSurface, "sust": decodeSurface,
		// Control.
		"bra": decodeBra, "brx": decodeBrx, "call": decodeCall, "ret": decodeRet,
		"exit": decodeExit,
		"trap": decodeTrap, "brkpt": decodeTrap, "nanosleep": decodeNanosleep,
		"bar": decodeBarrier, "barrier": decodeBarrier,
		"mbarrier": decodeMbarrier,
		// SIMD video instructions.
		"vadd2": decodeVideo, "vadd4": decodeVideo, "vsub2": decodeVideo, "vsub4": decodeVideo,
		"vavrg2": decodeVideo, "vavrg4": decodeVideo, "vabsdiff2": decodeVideo,
		"vabsdiff4": decodeVideo,
		"vmin2":     decodeVideo, "vmin4": decodeVideo, "vmax2": decodeVideo, "vmax4": decodeVideo,
		// Between lanes.
		"vote": decodeVote, "shfl": decodeShfl, "match": decodeMatch, "redux": decodeRedux,
		"activemask": decodeActivemask, "elect": decodeElect,
	}
}
