// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda/nvml/nvmltest"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

func TestRead(t *testing.T) {
	l, err := Open(nvmltest.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	u, err := l.Read()
	if err != nil {
		t.Fatal(err)
	}
	first := ledger.ID([16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	second := ledger.ID([16]byte{0: 255, 1: 255, 2: 255, 3: 255, 15: 1})
	if got := u.GPUs(); !slices.Equal(got, []uint64{first, second}) {
		t.Errorf("GPUs %x", got)
	}
	for _, test := range []struct {
		gpu  uint64
		pid  int
		want uint64
		ok   bool
	}{
		{first, 10, 526 << 20, true}, {first, 12, 5 << 30, true},
		{first, 11, 0, false}, {first, 13, 0, false}, {second, 10, 0, false}, {7, 10, 0, false},
	} {
		if got, ok := u.Used(test.gpu, test.pid); got != test.want || ok != test.ok {
			t.Errorf("%x, %d: %d, %t", test.gpu, test.pid, got, ok)
		}
	}
}

func TestNoLibrary(t *testing.T) {
	for _, path := range []string{"/nowhere/libnvidia-ml.so.1", "libc.so.6"} {
		if _, err := Open(path); err == nil {
			t.Errorf("%s is NVML", path)
		}
	}
}
