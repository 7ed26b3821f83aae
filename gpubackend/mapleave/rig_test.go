// SPDX-License-Identifier: Apache-2.0

package mapleave

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/mapleave/mapleavetest"
	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// ram is a policy: two files, of which some mappings are allowed.
type ram struct {
	files map[uint32]int
	may   func(Mapping) bool

	mu      sync.Mutex
	gone    map[uint32]bool
	saw     []Mapping
	made    []memfd.Form
	refused []error
}

func (r *ram) Stands(number uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.gone[number]
}

func (r *ram) refuse(_ Mapping, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = append(r.refused, err)
}

// said is what was seen and refused since it was last called.
func (r *ram) said() (saw []Mapping, refused []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	saw, refused = r.saw, r.refused
	r.saw, r.refused = nil, nil
	return saw, refused
}

// forms are those of the files that were asked for.
func (r *ram) forms() []memfd.Form {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.made)
}

var errNot = errors.New("it may not")

func (r *ram) Make(f memfd.Form, give func(fd int) error) error {
	r.mu.Lock()
	r.made = append(r.made, f)
	r.mu.Unlock()
	if f.Bytes > 4*pageSize {
		return errNot
	}
	return give(r.files[asked])
}

func (r *ram) Allow(m Mapping, give func(fd int) error) error {
	r.mu.Lock()
	r.saw = append(r.saw, m)
	r.mu.Unlock()
	fd, is := r.files[m.Number]
	if !is || !r.may(m) {
		return errNot
	}
	return give(fd)
}

// newRAM has two files, with pages that begin with their number, and 10 more in the
// second.
func newRAM(t testing.TB, may func(Mapping) bool) *ram {
	t.Helper()
	r := &ram{files: map[uint32]int{}, may: may}
	for i := range 2 {
		fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		for page := range 4 {
			_, err := unix.Pwrite(fd, []byte{byte(10*i + page)}, int64(page*pageSize))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Ftruncate(fd, 4*pageSize); err != nil {
			t.Fatal(err)
		}
		r.files[uint32(asked+i)] = fd
	}
	return r
}

// serve has a Decider decide with a listener, which stays the test's.
func serve(t testing.TB, listener int, r *ram) (g *Decider, ended <-chan error) {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(listener), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = New(fd, r, r.refuse); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve() }()
	return g, done
}

// asked is the first number on which others decide.
const asked = mapleavetest.From

// attempt is a call of mmap.
func attempt(length, prot, flags, fd, offset uintptr) mapleavetest.Attempt {
	return mapleavetest.Attempt{Length: length, Prot: prot, Flags: flags, FD: fd, Offset: offset}
}

const (
	toRead  = unix.PROT_READ
	toWrite = unix.PROT_READ | unix.PROT_WRITE
	shared  = unix.MAP_SHARED
)
