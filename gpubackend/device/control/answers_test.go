// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// offer makes descriptors available, and returns how much of its answer the device has written.
func (r *rig) offer(chain ...virtqueuetest.Desc) (written uint32) {
	r.t.Helper()
	if _, err := r.driver.Add(chain...); err != nil {
		r.t.Fatal(err)
	}
	_, _ = unix.Write(r.kick, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	_, written = r.answered(r.at)
	return written
}

// TestAnswersSayNoMore: what isn't counted as written stays as it was, and an answer's bytes don't
// depend on what was there before.
func TestAnswersSayNoMore(t *testing.T) {
	r := newRig(t)
	r.start(0, nil)
	defer r.stop()
	const room = RoomForSettings + 64
	request, answer := r.at, r.at+1024
	for _, q := range []wire.ControlRequest{
		{Type: wire.ControlPing}, // nobody has greeted
		{Type: wire.ControlHello, Number: 4}, {Type: wire.ControlHello, Number: 5},
		{Type: wire.ControlPing}, {Type: wire.ControlExport, Number: 1}, {Type: wire.ControlImport},
		{Type: wire.ControlRelease}, {Type: wire.ControlAway}, {Type: wire.ControlAway, Comm: key},
		{Type: wire.ControlBack}, {Type: wire.ControlSettings, Number: 9}, {Type: 0xffff},
		{Type: wire.ControlOpen, Channel: 9},
	} {
		for _, size := range []uint32{wire.ControlResponseSize - 1, wire.ControlResponseSize,
			wire.ControlResponseSize + 1, RoomForSettings - 1, RoomForSettings, room} {
			var said [2][]byte
			for i, before := range []byte{0xa5, 0x5a} {
				var b [wire.ControlRequestSize]byte
				q.Encode(b[:])
				r.guest.Write(request, b[:])
				r.guest.Write(answer, bytes.Repeat([]byte{before}, room))
				n := r.offer(virtqueuetest.Desc{Addr: request, Len: uint32(len(b))},
					virtqueuetest.Desc{Addr: answer, Len: size, Flags: virtqueuetest.Write})
				all := r.guest.Read(answer, room)
				if n > size || bytes.Count(all[n:], []byte{before}) != room-int(n) {
					t.Errorf("%+v, room for %d: more than %d bytes were written", q, size, n)
				}
				said[i] = all[:n]
			}
			if q.Type != wire.ControlExport && !bytes.Equal(said[0], said[1]) {
				t.Errorf("%+v, room for %d: % x, and then % x", q, size, said[0], said[1])
			}
		}
	}
}

// TestRequestsInPieces: a request may lie in two buffers, wherever it is divided. One that is cut
// short has no answer.
func TestRequestsInPieces(t *testing.T) {
	r := newRig(t)
	r.start(0, nil)
	defer r.stop()
	var b [wire.ControlRequestSize]byte
	(&wire.ControlRequest{Type: wire.ControlHello, Number: 5}).Encode(b[:])
	r.guest.Write(r.at, b[:])
	answer := virtqueuetest.Desc{Addr: r.at + 1024, Len: RoomForSettings,
		Flags: virtqueuetest.Write}
	for at := range uint32(len(b) + 1) {
		n := r.offer(virtqueuetest.Desc{Addr: r.at, Len: at},
			virtqueuetest.Desc{Addr: r.at + uint64(at), Len: uint32(len(b)) - at}, answer)
		if n != RoomForSettings {
			t.Errorf("divided at %d: %d bytes of an answer", at, n)
		}
	}
	for less := range uint32(len(b)) {
		if n := r.offer(virtqueuetest.Desc{Addr: r.at, Len: less}, answer); n != 0 {
			t.Errorf("%d bytes of a request: %d bytes of an answer", less, n)
		}
	}
}
