// SPDX-License-Identifier: Apache-2.0

package ram

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/numbering"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const (
	guestBytes  = 1 << 20
	firstNumber = 100
)

// opener opens files in this process, unless it doesn't.
type opener struct {
	reopen func(fd int) (*os.File, error)
	shut   func(fd int) error
}

func (o opener) Reopen(fd int) (*os.File, error) { return o.reopen(fd) }
func (o opener) Shut(fd int) error               { return o.shut(fd) }

// newRAM is one without memory, and what it logs.
func newRAM() (*RAM, *bytes.Buffer) { return newRAMWith(nil) }

func newRAMWith(o Opener) (*RAM, *bytes.Buffer) {
	var text bytes.Buffer
	log := logrus.New()
	log.SetOutput(&text)
	numbers, _ := numbering.New(nil, firstNumber, 4) // nobody keeps them: there is no error
	return New(numbers, o, logrus.NewEntry(log)), &text
}

// mapped is a guest's memory, as a front end sends it.
func mapped(t *testing.T, r *RAM) *guestmem.Memory {
	t.Helper()
	guest := virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: guestBytes})
	regions := vhostusertest.Regions(guest)
	for i, x := range guest.Mem.Regions() {
		fd, err := unix.FcntlInt(uintptr(x.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		regions[i].FD = vhostuser.NewFD(fd)
	}
	m, err := vhostuser.NewMemory(regions)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	mem, err := r.Map(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	return mem
}

// bitmap is a log of dirty pages.
func bitmap(t *testing.T) (l *dirtylog.Log, marked func() int) {
	t.Helper()
	const size = guestBytes / dirtylog.PageSize / 8
	fd := virtqueuetest.MemFD(t, size)
	l, err := dirtylog.Open(fd, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, func() (n int) {
		bits := make([]byte, size)
		if _, err := unix.Pread(fd, bits, 0); err != nil {
			t.Fatal(err)
		}
		for _, b := range bits {
			for ; b != 0; b &= b - 1 {
				n++
			}
		}
		return n
	}
}

// TestMemoryIsTold: a message describes the memory once there is some; other memory takes its
// place.
func TestMemoryIsTold(t *testing.T) {
	r, _ := newRAM()
	if m, files := r.Message(); r.Now() != nil || m.Memory != nil || files != nil {
		t.Fatalf("%+v of no memory", m)
	}
	first, second := mapped(t, r), mapped(t, r)
	if r.Put(nil); await.Closed(r.Came()) {
		t.Error("some came")
	}
	if r.Put(first) != nil || r.Now() != first || !await.Closed(r.Came()) {
		t.Fatal("there was some, or none came")
	}
	m, files := r.Message()
	if m.Kind != handover.KindMemory || len(m.Memory) != 1 || m.Files.Memory != 1 ||
		len(files) != 1 || files[0] != first.Regions()[0].FD {
		t.Errorf("%+v, files %v", m, files)
	}
	start := &handover.Message{Kind: handover.KindStart}
	if files := Describe(first, start, []int{7}); len(files) != 2 || files[0] != 7 {
		t.Errorf("files %v", files)
	}
	if r.Put(second) != first {
		t.Error("another memory was there")
	}
	if _, files := r.Message(); len(files) != 1 || files[0] != second.Regions()[0].FD {
		t.Errorf("files %v of the second", files)
	}
	r.Use(func(mem *guestmem.Memory) {
		if mem != second {
			t.Error("another memory is used")
		}
	})
}

// TestItStaysWhileItIsUsed: who replaces the memory, or the log, waits for those who use it.
func TestItStaysWhileItIsUsed(t *testing.T) {
	r, _ := newRAM()
	first, second := mapped(t, r), mapped(t, r)
	r.Put(first)
	log, _ := bitmap(t)
	for name, change := range map[string]func(){
		"another memory": func() { r.Put(second) }, "another log": func() { r.SetLog(log) },
	} {
		done := make(chan struct{})
		r.Use(func(*guestmem.Memory) {
			go func() {
				defer close(done)
				change()
			}()
			if await.Within(50*time.Millisecond, done) {
				t.Errorf("%s doesn't wait", name)
			}
		})
		if !await.Within(time.Minute, done) {
			t.Errorf("%s waits for nobody", name)
		}
	}
}

// TestWritesAreMarked in the log that there is, and all of it where nobody knows what was written.
func TestWritesAreMarked(t *testing.T) {
	r, said := newRAM()
	r.MarkAll() // without memory, nor log
	log, marked := bitmap(t)
	r.SetLog(log)
	r.MarkAll() // without memory
	mem := mapped(t, r)
	r.Put(mem)
	if err := mem.Write([]byte{1}, 5*dirtylog.PageSize); err != nil || marked() != 1 {
		t.Fatalf("%d pages are marked, %v", marked(), err)
	}
	if said.Len() != 0 {
		t.Errorf("the log says %q", said)
	}
	r.MarkAll()
	if n := marked(); n != guestBytes/dirtylog.PageSize ||
		!strings.Contains(said.String(), "sent again") {
		t.Errorf("%d pages are marked, the log says %q", n, said)
	}
	other, others := bitmap(t)
	r.SetLog(other)
	if err := mem.Write([]byte{1}, 0); err != nil || others() != 1 || r.Log() != other {
		t.Errorf("%d pages are marked in another log, %v", others(), err)
	}
	r.SetLog(nil)
	r.MarkAll()
	if n := others(); n != 1 {
		t.Errorf("%d pages are marked where nobody looks", n)
	}
}
