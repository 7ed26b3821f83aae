// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
)

// BenchmarkRoundTrip is a call that waits for nothing: from the library's append to its answer,
// with the loop on a thread of its own. It needs two free cores.
func BenchmarkRoundTrip(b *testing.B) {
	r := newRig(b)
	r.withQueue(b)
	r.messages = make(chan inbox.Received, 1)
	r.policy.SpinHostUs = 1e6
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		ended <- r.loop()
	}()
	done := word(r.mem[wire.Slots+wire.SlotDoneOffset:])
	b.ResetTimer()
	for i := range b.N {
		seq := uint32(i + 1)
		r.send(gpubackend.OpCtxSynchronize, true, seq, nil)
		for atomic.LoadUint32(done) != seq {
		}
	}
	b.StopTimer()
	// A size that makes no sense ends the loop.
	binary.LittleEndian.PutUint32(r.mem[wire.Ring+int(r.appended%wire.RingBytes)+4:], 1)
	atomic.StoreUint32(word(r.mem[wire.ArenaHeaderAppendedOffset:]), r.appended+24)
	if err := <-ended; err == nil {
		b.Fatal("the loop ended without a reason")
	}
}

// BenchmarkTurn is a call that waits for nothing, and the turn of the loop in which it is answered,
// on one thread.
func BenchmarkTurn(b *testing.B) {
	r := newRig(b)
	for i := range b.N {
		r.send(gpubackend.OpCtxSynchronize, true, uint32(i+1), nil)
		if _, err := r.runCommands(); err != nil {
			b.Fatal(err)
		}
		r.pollWaiters()
	}
}
