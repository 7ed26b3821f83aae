// SPDX-License-Identifier: Apache-2.0

package mapleave

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/mapleave/mapleavetest"
	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// TestFilesAreMade: what a worker asks for by the call that would make a file, it gets from the
// policy: a file under a number of its own, or a refusal. So it is with kernels that need two
// steps.
func TestFilesAreMade(t *testing.T) {
	for name, flag := range map[string]uint32{"at once": atOnce, "in two steps": 1 << 31} {
		t.Run(name, func(t *testing.T) {
			before := atOnce
			atOnce = flag
			defer func() { atOnce = before }()
			testFilesAreMade(t)
		})
	}
}

// newMaker is a policy whose first file is what it gives to whoever asks for one.
func newMaker(t *testing.T) *ram {
	t.Helper()
	r := newRAM(t, nil)
	if _, err := unix.FcntlInt(uintptr(r.files[asked]), unix.F_ADD_SEALS, unix.F_SEAL_GROW|
		unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	return r
}

func testFilesAreMade(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newMaker(t)
	g, ended := serve(t, a.Listener, r)
	form := memfd.Form{Kind: memfd.Created, GPU: 3, Bytes: 4 * pageSize}
	for range 2 {
		var fd int
		var err error
		a.Do(func() { fd, err = memfd.Make(form) })
		if err != nil {
			t.Fatal(err)
		}
		flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if b := make([]byte, 1); flags != unix.FD_CLOEXEC || fd == r.files[asked] {
			t.Errorf("number %d, flags %#x", fd, flags)
		} else if _, err := unix.Pread(fd, b, 3*pageSize); err != nil || b[0] != 3 {
			t.Errorf("it has %v, %v", b, err)
		}
		unix.Close(fd)
	}
	if want := []memfd.Form{form, form}; !slices.Equal(r.forms(), want) {
		t.Errorf("asked for %v, want %v", r.forms(), want)
	}
	if _, refused := r.said(); refused != nil {
		t.Errorf("refused: %v", refused)
	}
	var err error
	a.Do(func() { _, err = memfd.Make(memfd.Form{Kind: memfd.Created, Bytes: 5 * pageSize}) })
	if _, refused := r.said(); !errors.Is(err, unix.ENOMEM) || len(refused) != 1 ||
		!errors.Is(refused[0], errNot) {
		t.Errorf("too much: %v; refused: %v", err, refused)
	}
	// No size, as when whoever calls knows of nobody to ask.
	a.Do(func() { _, err = unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING) })
	if _, refused := r.said(); !errors.Is(err, unix.EACCES) || len(refused) != 1 ||
		!errors.Is(refused[0], errMake) {
		t.Errorf("without a size: %v; refused: %v", err, refused)
	}
	if got := r.forms(); len(got) != 3 {
		t.Errorf("asked for %v", got)
	}
	if a.End(); <-ended != nil {
		t.Error("it doesn't see the end")
	}
	g.Close()
}

// TestAnsweredWithoutAFile: a call that the kernel has answered without a file is made again.
func TestAnsweredWithoutAFile(t *testing.T) {
	a := mapleavetest.New(t)
	defer unix.Close(a.Listener)
	r := newMaker(t)
	fd, made := -1, make(chan error)
	go a.Do(func() {
		var err error
		fd, err = memfd.Make(memfd.Form{Kind: memfd.Created, Bytes: 4 * pageSize})
		made <- err
	})
	var call notified
	if err := request(a.Listener, unix.SECCOMP_IOCTL_NOTIF_RECV, &call); err != nil {
		t.Fatal(err)
	}
	nothing := &decision{id: call.id}
	if err := request(a.Listener, unix.SECCOMP_IOCTL_NOTIF_SEND, nothing); err != nil {
		t.Fatal(err)
	}
	g, ended := serve(t, a.Listener, r)
	if err := <-made; err != nil || fd <= 0 || len(r.forms()) != 1 {
		t.Errorf("file %d, %v; asked for %v", fd, err, r.forms())
	} else {
		unix.Close(fd)
	}
	a.End()
	<-ended
	g.Close()
}
