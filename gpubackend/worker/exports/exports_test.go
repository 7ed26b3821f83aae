// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// fakeSender remembers what was sent.
type fakeSender struct {
	sent []*handover.Message
	fds  [][]int
	err  error
}

func (s *fakeSender) Send(m *handover.Message, fds []int) error {
	s.sent, s.fds = append(s.sent, m), append(s.fds, fds)
	return s.err
}

func newExports(s *fakeSender) *Exports {
	log := logrus.New()
	log.SetOutput(io.Discard)
	gpus := []uint64{11, 12}
	return New(s, func() []uint64 { return gpus }, nothing, logrus.NewEntry(log))
}

func TestObjectsAreOfferedAndWithdrawn(t *testing.T) {
	s := &fakeSender{}
	x := newExports(s)
	for want := range uint32(3) {
		if got := x.Number(); got != want+1 {
			t.Errorf("number %d, want %d", got, want+1)
		}
	}
	x.offered = math.MaxUint32
	if x.Number() != 0 {
		t.Error("numbers come again")
	}
	for file, files := range map[int]int{-1: 0, 9: 1} {
		s.sent, s.fds = nil, nil
		if result := x.Offer(handover.Object{Number: 3}, 1, file); result != gpubackend.Success {
			t.Error(result)
		}
		if m := s.sent[0]; m.Kind != handover.KindOffer || m.Object.Number != 3 ||
			m.Object.GPU != 12 || len(s.fds[0]) != files || m.Files.Object != (files > 0) {
			t.Errorf("sent %+v, %v", m, s.fds[0])
		}
	}
	s.sent = nil
	x.Withdraw(handover.ObjectMemory, 0) // never offered
	x.Withdraw(handover.ObjectPool, 3)
	if len(s.sent) != 1 || s.sent[0].Kind != handover.KindWithdraw ||
		s.sent[0].Object.Kind != handover.ObjectPool {
		t.Errorf("sent %+v", s.sent)
	}
	s.err = errors.New("broken pipe")
	if result := x.Offer(handover.Object{}, 0, -1); result == gpubackend.Success {
		t.Error("an offer that wasn't sent succeeded")
	}
	if result := x.Offer(handover.Object{}, 2, -1); result != gpubackend.InvalidDevice {
		t.Errorf("an offer of a third GPU's: %v", result)
	}
}

// TestHandedOverAgain: what an earlier device process has handed over isn't there twice, whether it
// was named meanwhile or not.
func TestHandedOverAgain(t *testing.T) {
	x := newExports(&fakeSender{})
	hand := func(number uint32, again bool) {
		t.Helper()
		o := handover.Object{Kind: handover.ObjectPool, GPU: 11, Import: number, Again: again}
		m := &handover.Message{Kind: handover.KindImport, Object: &o}
		if a := x.Accept(m, nil); a.Kind != handover.KindTaken || a.Error != "" {
			t.Errorf("import %d: %+v", number, a)
		}
	}
	take := func(number uint64, want gpubackend.Result) {
		t.Helper()
		if _, got := x.Take(number, handover.ObjectPool); got != want {
			t.Errorf("object %d: %v, want %v", number, got, want)
		}
	}
	hand(3, false)
	hand(5, false)
	take(3, gpubackend.Success)
	for _, number := range []uint32{3, 5, 6} {
		hand(number, true)
	}
	if n := x.Waiting(); n != 2 {
		t.Errorf("%d objects wait, want 2", n)
	}
	take(3, gpubackend.InvalidValue)
	take(5, gpubackend.Success)
	take(6, gpubackend.Success)
	hand(1, false) // of a device process that counts anew
	take(1, gpubackend.Success)
}

// TestGPUsByTheirIDs: processes have numbers of their own for the VM's GPUs.
func TestGPUsByTheirIDs(t *testing.T) {
	x := newExports(&fakeSender{})
	for gpu, want := range map[uint64]int{11: 0, 12: 1, 13: -1, 0: -1} {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		m := &handover.Message{Kind: handover.KindImport,
			Object: &handover.Object{Kind: handover.ObjectMemory, Import: 7, GPU: gpu}}
		m.Files.Object = true
		if refused := x.Accept(m, []int{fd}).Error; refused != "" {
			t.Fatal(refused)
		}
		i, result := x.Take(7, handover.ObjectMemory)
		if want < 0 {
			if result != gpubackend.InvalidDevice || open(fd) {
				t.Errorf("GPU %d: %v; its file is open: %v", gpu, result, open(fd))
			}
			continue
		}
		if result != gpubackend.Success || i.Device != uint64(want) {
			t.Errorf("GPU %d: %v, device %d, want %d", gpu, result, i.Device, want)
		}
		i.Close()
	}
}

// open says whether a descriptor is open.
func open(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

func TestObjectsAreHandedOver(t *testing.T) {
	x := newExports(&fakeSender{})
	give := func(number uint32, kind handover.ObjectKind) (fd int, refused string) {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		m := &handover.Message{Kind: handover.KindImport,
			Object: &handover.Object{Kind: kind, Import: number, GPU: 11}}
		m.Files.Object = true
		return fd, x.Accept(m, []int{fd}).Error
	}
	fd, _ := give(7, handover.ObjectMemory)
	for _, wrong := range []uint64{8, 7 | 1<<32} {
		if _, result := x.Take(wrong, handover.ObjectMemory); result != gpubackend.InvalidValue {
			t.Errorf("number %#x: %v", wrong, result)
		}
	}
	i, result := x.Take(7, handover.ObjectMemory)
	if result != gpubackend.Success || i.File != fd || !open(fd) {
		t.Fatalf("%+v, %v", i, result)
	}
	if i.Close(); open(fd) {
		t.Error("the file is open still")
	}
	if _, result := x.Take(7, handover.ObjectMemory); result != gpubackend.InvalidValue {
		t.Errorf("taken twice: %v", result)
	}
	fd, _ = give(7, handover.ObjectPool)
	if _, result := x.Take(7, handover.ObjectMemory); result != gpubackend.InvalidValue ||
		open(fd) || x.Waiting() != 0 {
		t.Errorf("another kind: %v, %d wait", result, x.Waiting())
	}
	var waiting []int
	for n := range uint32(MaxWaiting) {
		fd, refused := give(n, handover.ObjectMemory)
		if refused != "" {
			t.Fatalf("object %d: %s", n, refused)
		}
		waiting = append(waiting, fd)
	}
	if fd, refused := give(MaxWaiting, handover.ObjectMemory); refused == "" || open(fd) {
		t.Errorf("one too many: %q", refused)
	}
	if answer := x.Accept(&handover.Message{}, nil); answer.Error == "" {
		t.Error("no object was taken")
	}
	x.Close()
	if x.Waiting() != 0 || slices.ContainsFunc(waiting, open) {
		t.Error("files that nobody took stay open")
	}
	if fd, refused := give(1, handover.ObjectMemory); refused == "" || open(fd) {
		t.Errorf("one too late: %q", refused)
	}
}

// receiver is a Sender whose files are the receiver's, as behind a socket.
type receiver struct {
	t    *testing.T
	sent []*handover.Message
	fds  []int
}

func (r *receiver) Send(m *handover.Message, fds []int) error {
	r.sent = append(r.sent, m)
	for _, fd := range fds {
		own, err := unix.Dup(fd)
		if err != nil {
			r.t.Errorf("the file of %+v: %v", m.Object, err)
		}
		r.fds = append(r.fds, own)
	}
	return nil
}

// TestOfferedAgain: a device process may have died over the latest offers.
func TestOfferedAgain(t *testing.T) {
	r := &receiver{t: t}
	x := New(r, func() []uint64 { return []uint64{11} }, nothing, logrus.NewEntry(logrus.New()))
	const more = 3 // than are offered again
	inodes := map[uint32]uint64{}
	for n := uint32(1); n <= maxRecent+more; n++ {
		fd, err := unix.MemfdCreate("offer", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		inodes[n] = inode(t, fd)
		o := handover.Object{Kind: handover.ObjectMemory, Number: n, Bytes: uint64(n)}
		if result := x.Offer(o, 0, fd); result != gpubackend.Success {
			t.Fatal(result)
		}
		unix.Close(fd)
	}
	x.Offer(handover.Object{Kind: handover.ObjectPool, Number: 100}, 0, -1)
	x.Withdraw(handover.ObjectMemory, maxRecent)
	handover.CloseFiles(r.fds)
	r.sent, r.fds = nil, nil
	if err := x.OfferAgain(); err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for i, m := range r.sent {
		n := m.Object.Number
		got = append(got, n)
		if m.Kind != handover.KindOffer || m.Object.GPU != 11 ||
			n != 100 && (m.Object.Bytes != uint64(n) || inode(t, r.fds[i]) != inodes[n]) {
			t.Errorf("offered again: %+v, %+v", m, m.Object)
		}
	}
	var want []uint32
	for n := uint32(more + 2); n <= maxRecent+more; n++ {
		if n != maxRecent {
			want = append(want, n)
		}
	}
	if want = append(want, 100); !slices.Equal(got, want) {
		t.Errorf("offered again: %v, want %v", got, want)
	}
	x.Close()
	r.sent = nil
	if err := x.OfferAgain(); err != nil || len(r.sent) > 0 {
		t.Errorf("%v, %d offers of a process that ends", err, len(r.sent))
	}
	x.Offer(handover.Object{Kind: handover.ObjectMemory, Number: 1}, 0, r.fds[0])
	handover.CloseFiles(r.fds)
}

func inode(t *testing.T, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}
