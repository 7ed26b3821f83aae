// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const guestPages = guestBytes / 4096

// bitmap is a front end's log of dirty pages.
type bitmap struct {
	t  testing.TB
	fd int
}

// migrate turns the log of dirty pages on, as QEMU does.
func (v *vm) migrate() bitmap {
	v.t.Helper()
	b := bitmap{v.t, virtqueuetest.MemFD(v.t, guestPages/8)}
	m := &vhostuser.Message{
		Request: vhostuser.SetLogBase, Flags: vhostuser.FlagVersion,
		Payload: vhostuser.AppendLog(nil, guestPages/8, 0),
	}
	if err := v.front.Write(m, b.fd); err != nil {
		v.t.Fatal(err)
	}
	r, err := v.front.Reply(vhostuser.SetLogBase)
	if err != nil || !bytes.Equal(r, vhostusertest.Word(0)) {
		v.t.Fatalf("log: % x, %v", r, err)
	}
	v.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(v.features|vhostuser.FeatureLogAll))
	return b
}

// fetch reads and clears it.
func (b bitmap) fetch() []byte {
	b.t.Helper()
	bits := make([]byte, guestPages/8)
	if _, err := unix.Pread(b.fd, bits, 0); err != nil {
		b.t.Fatal(err)
	}
	if _, err := unix.Pwrite(b.fd, make([]byte, len(bits)), 0); err != nil {
		b.t.Fatal(err)
	}
	return bits
}

// count is how many pages of a range are marked.
func count(bits []byte, gpa, n uint64) (pages int) {
	for p := gpa / 4096; p <= (gpa+n-1)/4096; p++ {
		pages += int(bits[p/8] >> (p % 8) & 1)
	}
	return pages
}

// TestWritesAreLogged: those of this process, of a worker that runs already, and of one that starts
// later.
func TestWritesAreLogged(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	log := v.migrate()
	if n := count(log.fetch(), v.arena, arenaBytes); n != arenaBytes/4096 {
		t.Errorf("%d pages of the arena are marked when the log begins", n)
	}
	if r, err := v.call(0, 999, 10); err != nil || r != gpubackend.NotSupported {
		t.Fatalf("call: %d, %v", r, err)
	}
	v.must(wire.ControlRequest{Type: wire.ControlPing})
	v.closeChannel(0)
	bits := log.fetch()
	for _, page := range []struct {
		what string
		at   uint64
	}{
		{"answer of the control queue", v.request + 64},
		{"used ring of the control queue", v.queues[0].Driver.Used},
		{"used ring of the channel", v.queues[1].Driver.Used}, {"slots", v.arena + wire.Slots},
		{"last page of the arena", v.arena + arenaBytes - 1},
	} {
		if count(bits, page.at, 1) == 0 {
			t.Errorf("%s isn't marked", page.what)
		}
	}
	if n := count(bits, 0, guestBytes); n > arenaBytes/4096+8 {
		t.Errorf("%d pages are marked, the arena has %d", n, arenaBytes/4096)
	}
	v.reap(1, 3)
	v.program(0) // whose worker is started with the log
	pinned := v.guest.Alloc(8192, 4096)
	v.add(0, 3, wire.ChainHeader{
		Type: wire.ChainMap, Id: 6, Flags: wire.MapFlagWrite, Bytes: 8192,
	}, wire.Run{Address: pinned, Bytes: 8192})
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if count(log.fetch(), v.arena, arenaBytes) == arenaBytes/4096 {
			break // and will be again and again
		}
		if time.Now().After(end) {
			t.Fatal("the arena is not marked")
		}
	}
	log.fetch()
	v.front.Stop(v.queues...)
	bits = log.fetch()
	if n := count(bits, v.arena, arenaBytes); n != arenaBytes/4096 {
		t.Errorf("%d pages of the arena are marked when the VM has stopped", n)
	}
	if n := count(bits, pinned, 8192); n != 2 {
		t.Errorf("%d pages of 2 that the GPU may write to are marked", n)
	}
	v.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(v.features))
	log.fetch()
	v.front.Start(v.queues...)
	v.must(wire.ControlRequest{Type: wire.ControlPing})
	v.front.Stop(v.queues...)
	if n := count(log.fetch(), 0, guestBytes); n != 0 {
		t.Errorf("%d pages are marked after the end of the log", n)
	}
}

// TestEndWithoutAWord: a process that ends without saying where it wrote may have written anywhere.
func TestEndWithoutAWord(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	v.program(1)
	v.mustCopy(0)
	log := v.migrate()
	v.closeChannel(1) // whose worker says where it wrote
	if n := count(log.fetch(), 0, guestBytes); n == guestPages {
		t.Error("all is marked")
	}
	w := v.worker(0)
	w.Kill()
	<-w.Gone()
	if n := count(log.fetch(), 0, guestBytes); n != guestPages {
		t.Errorf("%d pages of %d are marked", n, guestPages)
	}
	mover := v.dev.movers.Current()
	mover.Kill()
	<-mover.Exited()
	if n := count(log.fetch(), 0, guestBytes); n != guestPages {
		t.Errorf("%d pages of %d are marked at the mover's end", n, guestPages)
	}
}

// TestProcessThatTakesNoLog is killed: it may have written anywhere.
func TestProcessThatTakesNoLog(t *testing.T) {
	s := &stubs{script: starts(func(x *stub) {
		for {
			if kind, err := x.Receive(); err != nil || kind != handover.KindLog {
				return
			}
			_ = x.Conn.Send(&handover.Message{Kind: handover.KindLogged, Error: "no"}, nil)
		}
	})}
	v := greetedVM(t, s, Timeouts{})
	v.open(0)
	w := v.worker(0)
	if w.Killed() || w.Ended() {
		t.Fatal("the process has ended before the log")
	}
	log := v.migrate()
	if n := count(log.fetch(), 0, guestBytes); n != guestPages {
		t.Errorf("%d pages of %d are marked", n, guestPages)
	}
	if !w.Killed() {
		t.Fatal("the process was not killed")
	}
	<-w.Gone()
	v.must(wire.ControlRequest{Type: wire.ControlPing})
}
