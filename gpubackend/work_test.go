// SPDX-License-Identifier: Apache-2.0

package gpubackend

import "testing"

func TestWhatGivesTheGPUWork(t *testing.T) {
	for _, tt := range []struct {
		op     Op
		works  bool
		stream int // -1: none is named
	}{
		{OpLaunchKernel, true, 1}, {OpGraphLaunch, true, 1}, {OpMemsetD32Async, true, 3},
		{OpStreamMemOps, true, 0}, {OpCtxRecordEvent, true, -1}, {OpStreamSynchronize, false, -1},
		{OpStreamQuery, false, -1}, {OpMemAlloc, false, -1}, {0, false, -1}, {^Op(0), false, -1},
	} {
		word, ok := tt.op.WorkStream()
		if !ok {
			word = -1
		}
		if tt.op.Works() != tt.works || word != tt.stream {
			t.Errorf("%s: works %v, its stream in word %d", tt.op.Name(), tt.op.Works(), word)
		}
	}
}
