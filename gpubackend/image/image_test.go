// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) {
	_ = Host() // whose file stays open
	os.Exit(leaks.Main(m))
}

func TestImage(t *testing.T) {
	const size = 4<<20 + 1
	i, err := New(size)
	if err != nil {
		t.Fatal(err)
	}
	if len(i.Bytes()) != size || i.Bytes()[size-1] != 0 {
		t.Errorf("%d bytes, the last is %d", len(i.Bytes()), i.Bytes()[size-1])
	}
	i.Bytes()[size-1] = 7
	i.Close()
	if len(i.Bytes()) != 0 {
		t.Error("a closed image has memory")
	}
}

func TestSizes(t *testing.T) {
	for _, bytes := range []uint64{0, 1 << 63, math.MaxUint64} {
		if _, err := New(bytes); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: error %v", bytes, err)
		}
	}
	if _, err := New(math.MaxInt64); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("more than there are addresses: error %v", err)
	}
}

func TestAvailable(t *testing.T) {
	if n, err := Host()(); err != nil || n == 0 {
		t.Errorf("this host: %d, %v", n, err)
	}
	for _, test := range []struct {
		text string
		want uint64
		bad  bool
	}{
		{"MemTotal: 9 kB\nMemAvailable:    1048576 kB\n", 768 << 20, false},
		{"MemAvailable: 1024 kB\n", 0, false},
		{"MemFree: 1024 kB\n", 0, true},
		{"", 0, true},
	} {
		n, err := available([]byte(test.text))
		if n != test.want || (err != nil) != test.bad {
			t.Errorf("%q: %d, %v", test.text, n, err)
		}
	}
}
