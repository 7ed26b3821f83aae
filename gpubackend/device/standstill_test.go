// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// countingImage is a kernel that counts in guest memory until the guest writes to another word
// there. If it doesn't, the kernel never ends.
const countingImage = `.version 7.0
.target sm_75
.address_size 64
.visible .entry counting(.param .u64 page)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<3>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [page];
again:
	ld.volatile.global.u32 %r1, [%rd1];
	add.s32 %r1, %r1, 1;
	st.volatile.global.u32 [%rd1], %r1;
	ld.volatile.global.u32 %r2, [%rd1+64];
	setp.eq.s32 %p1, %r2, 0;
	@%p1 bra again;
	ret;
}
` + "\x00"

// counter is a page of guest memory in which a kernel counts.
type counter struct {
	*vm
	page uint64
}

// counterAddress is where the program that counts has the page. Nothing else is there.
const counterAddress = 0x3_0000_0000

// count starts a program on a channel whose kernel counts until it is told to end.
func (v *vm) count(channel int) counter {
	v.t.Helper()
	v.program(channel)
	c := counter{v, v.guest.Alloc(4096, 4096)}
	v.add(channel, 3,
		wire.ChainHeader{Type: wire.ChainMap, Id: 6, Bytes: 4096, Address: counterAddress,
			Flags: wire.MapFlagWrite},
		wire.Run{Address: c.page, Bytes: 4096})
	const none = uint64(wire.BufferNone) << 56
	seq := uint32(1)
	do := func(op gpubackend.Op, words ...uint64) uint64 {
		v.t.Helper()
		seq++
		if r, err := v.call(channel, op, seq, words...); r != 0 || err != nil {
			v.t.Fatalf("%s: %d, %v", op.Name(), r, err)
		}
		var s wire.Slot
		s.Decode(v.guest.Read(v.arena+wire.Slots, wire.SlotBytes))
		return s.Word[0]
	}
	given := func(text string) (ref, bytes uint64) {
		v.guest.Write(v.arena+wire.Bulk, []byte(text))
		return uint64(wire.BufferBulk)<<56 | wire.Bulk, uint64(len(text))
	}
	v.context = do(gpubackend.OpDevicePrimaryCtxRetain, 0)
	ref, n := given(countingImage)
	module := do(gpubackend.OpModuleLoadData, ref, n, none, 0, none, 0, none, 0)
	ref, n = given("counting")
	function := do(gpubackend.OpModuleGetFunction, module, ref, n)
	do(gpubackend.OpHostRegister, 6, counterAddress, 4096, 0)
	do(gpubackend.OpLaunchKernel, function, 0, 1|1<<32, 1|1<<32, 1|1<<32, 0, 8, counterAddress)
	for end := time.Now().Add(soon); c.read() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			v.t.Fatal("the kernel doesn't count")
		}
	}
	return c
}

func (c counter) read() uint32 { return binary.LittleEndian.Uint32(c.guest.Read(c.page, 4)) }

// end lets the kernel end. It writes to the file, so that another goroutine than the test's may
// call it.
func (c counter) end() { _, _ = unix.Pwrite(c.guest.FDs[0], []byte{1}, int64(c.page+64)) }

// mustStand fails the test if anything still counts.
func (c counter) mustStand() {
	c.t.Helper()
	before := c.read()
	time.Sleep(100 * time.Millisecond)
	if now := c.read(); now != before {
		c.t.Fatalf("the kernel counts on after its queue was stopped: %d, then %d", before, now)
	}
}

// TestStopAwaitsWork: when the queues are stopped, nothing writes to the guest's memory any more,
// and the program goes on when they are started again.
func TestStopAwaitsWork(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "stop-grace=20s")
	c := v.count(0)
	time.AfterFunc(300*time.Millisecond, c.end)
	v.front.Stop(v.queues...)
	c.mustStand()
	v.front.Start(v.queues...)
	if r, err := v.call(0, gpubackend.OpCtxSynchronize, 100); r != 0 || err != nil {
		t.Fatalf("after resume: %d, %v", r, err)
	}
	v.closeChannel(0)
	v.reap(1, 4)
}

// TestStopEndsEndlessWork: a worker whose kernel doesn't end is ended when its queue stops.
func TestStopEndsEndlessWork(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "stop-grace=500ms")
	c := v.count(0)
	v.front.Stop(v.queues...)
	c.mustStand()
	v.reap(1, 4)
	w := v.worker(0)
	if w != nil {
		t.Fatal("the worker is still there")
	}
	v.front.Start(v.queues...)
	v.closeChannel(0)
	v.program(0)
}

// TestStopWaitsForAllAtOnce: however many workers don't pause, the front end waits as long as for
// one.
func TestStopWaitsForAllAtOnce(t *testing.T) {
	const grace = time.Second
	var took time.Duration
	for range tries { // one after another they would take three times as long each time
		v := greetedVM(t, &stubs{script: starts(func(s *stub) { <-s.Killed })}, Timeouts{},
			fmt.Sprintf("stop-grace=%v", grace))
		for i := range 3 {
			v.open(uint32(i))
		}
		begin := time.Now()
		v.front.Stop(v.queues...)
		if took = time.Since(begin); took < grace {
			t.Fatalf("3 queues were stopped in %v, with a grace of %v", took, grace)
		}
		if took < 3*grace {
			return
		}
		v.close()
	}
	t.Errorf("3 queues were stopped in %v, with a grace of %v", took, grace)
}

// TestStopOfOneQueue: workers that paused because the queue of another was stopped go on.
func TestStopOfOneQueue(t *testing.T) {
	var resumed atomic.Int32
	v := greetedVM(t, &stubs{script: starts(func(s *stub) {
		for {
			m, fds, err := s.Conn.Receive()
			handover.CloseFiles(fds)
			switch {
			case err != nil:
				return
			case m.Kind == handover.KindPause:
				_ = s.Conn.Send(&handover.Message{Kind: handover.KindPaused}, nil)
			case m.Kind == handover.KindResume:
				resumed.Add(1)
			}
		}
	})}, Timeouts{})
	for i := range 3 {
		v.open(uint32(i))
	}
	v.front.Stop(v.queues[1])
	for end := time.Now().Add(soon); resumed.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of 2 workers went on", resumed.Load())
		}
	}
	v.front.Start(v.queues[1])
	for end := time.Now().Add(soon); resumed.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker of the queue that was stopped doesn't go on")
		}
	}
}

// TestEndWaitsForNoWork: when the front end is gone, nothing is worth waiting for.
func TestEndWaitsForNoWork(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "stop-grace=1m")
	v.count(0)
	begin := time.Now()
	v.close()
	if took := time.Since(begin); took > 30*time.Second {
		t.Fatalf("the end took %v", took)
	}
}
