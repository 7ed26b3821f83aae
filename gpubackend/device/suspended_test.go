// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// suspended is a VM whose program on channel 0 has allocations, and their contents.
type suspended struct {
	*vm
	page   *ledger.Page
	seq    uint32
	random *rand.Rand
	want   map[uint64][]byte
	// of all that was allocated
	addresses []uint64
}

// patient is for workers that have much to write, under the race detector, on a busy machine.
var patient = Timeouts{Answer: soon}

func newSuspended(t *testing.T, settings ...string) *suspended {
	t.Helper()
	page := newLedger(t)
	c := Config{Spawn: &processes{}, Ledger: page, Timeouts: patient}
	return suspendedVM(newVMOf(t, c, settings...), page)
}

func suspendedVM(v *vm, page *ledger.Page) *suspended {
	v.t.Helper()
	v.hello()
	s := &suspended{vm: v, page: page, seq: 10, random: rand.New(rand.NewPCG(1, 1)),
		want: map[uint64][]byte{}}
	v.program(0)
	if r := v.retain(0, 2); r != 0 {
		v.t.Fatalf("make a context: %d", r)
	}
	return s
}

func (s *suspended) do(op gpubackend.Op, words ...uint64) uint64 {
	s.t.Helper()
	s.seq++
	if r, err := s.call(0, op, s.seq, words...); r != 0 || err != nil {
		s.t.Fatalf("%s: %d, %v", op.Name(), r, err)
	}
	return s.word(0)
}

const inBulk = uint64(wire.BufferBulk)<<56 | wire.Bulk

// apart is the size of memory that has a segment of its own. A segment that allocations share is
// saved with all its 32 MiB, which takes long with the race detector.
const apart = devmem.LargestShared + 1<<20

// allocate makes memory with content at its beginning and at its end.
func (s *suspended) allocate(size uint64) {
	s.t.Helper()
	addr := s.do(gpubackend.OpMemAlloc, size)
	b := make([]byte, 4096)
	for i := range b {
		b[i] = byte(s.random.Uint32())
	}
	s.addresses = append(s.addresses, addr)
	for _, at := range []uint64{addr, addr + size - 4096} {
		s.place(at, b)
	}
}

// place writes 4096 bytes to memory.
func (s *suspended) place(at uint64, b []byte) {
	s.t.Helper()
	s.guest.Write(s.arena+wire.Bulk, b)
	s.do(gpubackend.OpCopyHtoD, at, inBulk, 4096, 4096, 0, 0)
	s.want[at] = b
}

func (s *suspended) mustHold() {
	s.t.Helper()
	for at, b := range s.want {
		s.guest.Write(s.arena+wire.Bulk, make([]byte, 4096))
		s.do(gpubackend.OpCopyDtoH, at, inBulk, 4096, 4096, 0, 0)
		if !bytes.Equal(s.guest.Read(s.arena+wire.Bulk, 4096), b) {
			s.t.Fatalf("what is at %#x isn't what was there", at)
		}
	}
}

// change suspends or resumes, as an operator does.
func (v *vm) change(r admin.Request) (admin.Answer, error) {
	path := filepath.Join(v.t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		return admin.Answer{}, err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		v.dev.ServeAdmin(l)
	}()
	defer func() {
		_ = l.Close()
		<-served
	}()
	a, err := admin.Ask(path, r)
	if err != nil {
		return admin.Answer{}, err
	}
	return *a, nil
}

func (v *vm) mustSuspend() *suspend.Moved {
	v.t.Helper()
	return v.mustChange(admin.Request{Suspend: true})
}

func (v *vm) mustResume() *suspend.Moved {
	v.t.Helper()
	return v.mustChange(admin.Request{Resume: true})
}

func (v *vm) mustChange(r admin.Request) *suspend.Moved {
	v.t.Helper()
	a, err := v.change(r)
	if err != nil {
		v.t.Fatal(err)
	}
	return a.Moved
}

// refused checks that a request fails with an error that has a text, and that the VM is then in a
// state.
func (v *vm) refused(r admin.Request, text string, then suspend.State) {
	v.t.Helper()
	_, err := v.change(r)
	if err == nil || !strings.Contains(err.Error(), text) || v.dev.suspension.State() != then {
		v.t.Fatalf("%+v: %v, want %q; then %+v", r, err, text, v.dev.suspension.Status())
	}
}

// count0 is how far the library has appended to an arena.
func (s *suspended) count0(arena uint64) uint32 {
	b := s.guest.Read(arena+wire.ArenaHeaderAppendedOffset, 4)
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
