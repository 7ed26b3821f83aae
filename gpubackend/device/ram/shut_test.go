// SPDX-License-Identifier: Apache-2.0

package ram

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// modeOf is a file's permissions.
func modeOf(t *testing.T, fd int) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Mode & 0o777
}

func takePermissions(fd int) error { return unix.Fchmod(fd, 0) }

// opensOnce opens each file once, if it can: before its permissions are taken.
func opensOnce(fd int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o777 == 0 {
		return nil, fmt.Errorf("permissions %#o, %w", st.Mode&0o777, err)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// TestMemoryIsShut: nobody can open memory without a name again, who hasn't the rights of root,
// once it is open to be read only. A file with a name stays as it is, and so does what another user
// has.
func TestMemoryIsShut(t *testing.T) {
	asked := 0
	r, text := newRAMWith(opener{opensOnce, func(fd int) error {
		asked++
		return takePermissions(fd)
	}})
	mem := mapped(t, r)
	fd := mem.Regions()[0].FD
	if modeOf(t, fd) == 0 {
		t.Fatal("it has no permissions before: the test proves nothing")
	}
	for range 2 {
		r.Put(mem)
		if mode := modeOf(t, fd); mode != 0 || r.Open() != nil || asked != 1 ||
			text.Len() != 0 {
			t.Errorf("permissions %#o, %v, asked for %d times: %s", mode, r.Open(), asked, text)
		}
	}
	if err := mem.Read(make([]byte, 8), 0); err != nil {
		t.Errorf("what is mapped can't be read: %v", err)
	}
	if f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR,
		0); os.Geteuid() != 0 && !errors.Is(err, os.ErrPermission) {
		f.Close()
		t.Errorf("opened again: %v", err)
	}
	named, err := os.Create(filepath.Join(t.TempDir(), "named"))
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	before := modeOf(t, int(named.Fd()))
	if err := shut(int(named.Fd()), takePermissions); err != nil ||
		modeOf(t, int(named.Fd())) != before {
		t.Errorf("a file with a name: %#o, %v", modeOf(t, int(named.Fd())), err)
	}
	if err := shut(-1, takePermissions); err == nil {
		t.Error("no file")
	}
	r.Put(nil)
}

// TestMemoryStaysOpen: who can't have its permissions taken says why, and until when.
func TestMemoryStaysOpen(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		o    Opener
		want error
	}{
		"refused":   {opener{opensOnce, func(int) error { return no }}, no},
		"by nobody": {nil, nil},
	} {
		r, _ := newRAMWith(c.o)
		mem := mapped(t, r)
		if r.Put(mem); !errors.Is(r.Open(), c.want) || modeOf(t, mem.Regions()[0].FD) == 0 {
			t.Errorf("%s: %v", name, r.Open())
		}
		if r.Put(nil); r.Open() != nil {
			t.Errorf("%s, without memory: %v", name, r.Open())
		}
	}
}

// asNobody calls f on a thread that has no rights to files of others.
func asNobody(f func() error) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = unix.Setfsuid(65534)
		defer unix.Setfsuid(0)
		failed <- f()
	}()
	return <-failed
}

// TestMemoryOfAnotherUser can be opened if its permissions let all do so. Only root can make some,
// and without its rights.
func TestMemoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for mode, open := range map[uint32]bool{0o777: true, 0o604: true, 0o660: true, 0o600: false} {
		fd := virtqueuetest.MemFD(t, 4096)
		if err := errors.Join(unix.Fchmod(fd, mode), unix.Fchown(fd, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		err := asNobody(func() error { return shut(fd, takePermissions) })
		if errors.Is(err, ErrOpen) != open || err != nil && !open || modeOf(t, fd) != mode {
			t.Errorf("permissions %#o are %#o now, %v", mode, modeOf(t, fd), err)
		}
	}
}
