// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/internal/leaks"
	"github.com/paracuda/paracuda/gpubackend/internal/memfdtest"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const size = 4 << 20

func TestImage(t *testing.T) {
	fd, err := New(size)
	if err != nil {
		t.Fatal(err)
	}
	second, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	if unix.Ftruncate(fd, 2*size) == nil || unix.Ftruncate(fd, size/2) == nil {
		t.Error("its size changes")
	}
	i, err := Open(fd, size)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Open(second, size)
	if err != nil {
		t.Fatal(err)
	}
	if len(i.Bytes()) != size {
		t.Errorf("%d bytes", len(i.Bytes()))
	}
	i.Bytes()[size-1] = 7
	if j.Bytes()[size-1] != 7 {
		t.Error("the file holds something else")
	}
	i.Close()
	j.Close()
}

func TestHostileImages(t *testing.T) {
	for name, fd := range memfdtest.Hostile(t, size, seals) {
		if _, err := Open(fd, size); !errors.Is(err, ErrImage) {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s: a descriptor is left open", name)
		}
	}
	if _, err := New(1 << 63); err == nil {
		t.Error("an image of 2^63 bytes")
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
