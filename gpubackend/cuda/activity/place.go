// SPDX-License-Identifier: Apache-2.0

package activity

import "github.com/paracuda/paracuda/gpubackend"

// Place is a stream of the process.
type Place struct {
	Context gpubackend.Context // 0: the stream is the same one in each context
	Stream  gpubackend.Stream
}

// perThread is the last number that stands for another stream in each context
// (CU_STREAM_PER_THREAD).
const perThread gpubackend.Stream = 2

// At is a stream while a context is current.
func At(c gpubackend.Context, s gpubackend.Stream) Place {
	if s > perThread {
		c = 0
	}
	return Place{Context: c, Stream: Unified(s)}
}
