// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package simt

// useAVX is set where the processor runs the assembly.
const useAVX = false

func consecutive32AVX(*[lanes]uint32, uint32) bool { return false }

func consecutive64AVX(*[lanes]uint64, uint64) bool { return false }

func gather32AVX(_, _ *[lanes]uint32, _ uintptr, _, _ uint32) bool { return false }
