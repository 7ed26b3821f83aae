// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package loadstore

import "github.com/paracuda/paracuda/gpubackend/soft/lanes"

// useAVX is set where the processor runs the assembly.
const useAVX = false

func consecutive32AVX(*[lanes.Count]uint32, uint32) bool { return false }

func consecutive64AVX(*[lanes.Count]uint64, uint64) bool { return false }

func gather32AVX(_, _ *[lanes.Count]uint32, _ uintptr, _, _ uint32) bool { return false }
