// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b gpubackend.Stream
		in   [2]gpubackend.Context
		same bool
	}{
		{"a stream of the guest's", 7, 7, [2]gpubackend.Context{1, 2}, true},
		{"two of them", 7, 8, [2]gpubackend.Context{1, 1}, false},
		{"the default stream of two contexts", 0, 0, [2]gpubackend.Context{1, 2}, false},
		{"its two names", 0, 1, [2]gpubackend.Context{1, 1}, true},
		{"its two names in two contexts", 0, 1, [2]gpubackend.Context{1, 2}, false},
		{"that of the thread", 2, 2, [2]gpubackend.Context{1, 2}, false},
		{"that of the thread, and the default", 2, 0, [2]gpubackend.Context{1, 1}, false},
	} {
		if got := At(test.in[0], test.a) == At(test.in[1], test.b); got != test.same {
			t.Errorf("%s: the same is %t", test.name, got)
		}
	}
}
