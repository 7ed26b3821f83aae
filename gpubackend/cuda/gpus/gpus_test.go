// SPDX-License-Identifier: Apache-2.0

package gpus

import "testing"

func TestFind(t *testing.T) {
	var l List
	if _, ok := l.Find(0); ok {
		t.Error("a GPU before there is one")
	}
	l.Set(make([]GPU, 2))
	for _, test := range []struct {
		dev  uint64
		want bool
	}{{0, true}, {1, true}, {2, false}, {1<<32 | 1, true}, {1 << 31, false}, {^uint64(0), false}} {
		i, ok := l.Find(test.dev)
		if ok != test.want || ok && i != int(uint32(test.dev)) {
			t.Errorf("%#x: %d, %t", test.dev, i, ok)
		}
	}
}
