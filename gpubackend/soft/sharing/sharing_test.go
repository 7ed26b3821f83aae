// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

// peer is a process's side of sharing.
type peer struct {
	*Sharing
	*roomtest.Ground
	streams *streams.Streams
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{Ground: roomtest.New(t, 64<<20)}
	p.streams = streams.New(streams.Options{Handles: p.Handles, Scheduler: p.Scheduler,
		Contexts: p.Contexts})
	p.Lasts = p.streams.Lasts
	p.Sharing = New(Options{Contexts: p.Contexts, Memory: p.Memory, Streams: p.streams})
	return p
}

func TestMemoryIsShared(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	addr := a.Alloc(t, 4096)
	s, fd, result := a.Share(addr + 100)
	resulttest.OK(t, result)
	defer unix.Close(fd)
	there, result := b.MapShared(s, fd)
	resulttest.OK(t, result)
	space.Bytes(addr, 4096)[100] = 7
	if got := space.Bytes(there+s.Offset, 1)[0]; got != 7 {
		t.Errorf("got %d", got)
	}
	wrong := s
	wrong.Bytes += 1
	_, result = b.MapShared(wrong, fd)
	resulttest.Want(t, result, gpubackend.InvalidValue)
	resulttest.OK(t, b.UnmapShared(there))
	resulttest.Want(t, b.UnmapShared(there), gpubackend.InvalidValue)
	if space.Bytes(addr, 4096)[100] != 7 {
		t.Error("unmapping took the memory's content")
	}
	_, _, result = a.Share(4096)
	resulttest.Want(t, result, gpubackend.InvalidValue)
}

// TestMemoryOfAPeerIsNotSharedFurther: it isn't this process's to give.
func TestMemoryOfAPeerIsNotSharedFurther(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	s, fd, result := a.Share(a.Alloc(t, 4096))
	resulttest.OK(t, result)
	defer unix.Close(fd)
	there, result := b.MapShared(s, fd)
	resulttest.OK(t, result)
	_, _, result = b.Share(there)
	resulttest.Want(t, result, gpubackend.InvalidValue)
}

func TestEventsAreShared(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	own, result := a.streams.EventCreate(0)
	resulttest.OK(t, result)
	_, _, result = a.ShareEvent(own)
	resulttest.Want(t, result, gpubackend.InvalidHandle)
	e, result := a.streams.EventCreate(cudaabi.EventInterprocess | cudaabi.EventDisableTiming)
	resulttest.OK(t, result)
	s, fd, result := a.ShareEvent(e)
	resulttest.OK(t, result)
	defer unix.Close(fd)
	there, result := b.OpenEvent(s, fd)
	resulttest.OK(t, result)
	release, result := a.streams.HostFunc(0, 0, func(uint64) {})
	resulttest.OK(t, result)
	resulttest.OK(t, a.streams.EventRecordWithFlags(e, 0, 0))
	resulttest.Want(t, b.streams.EventQuery(there), gpubackend.NotReady)
	resulttest.OK(t, b.streams.StreamWaitEvent(0, there, 0))
	resulttest.Want(t, b.Contexts.ContextQuery(), gpubackend.NotReady)
	release()
	resulttest.OK(t, b.Idle(t))
	resulttest.OK(t, b.streams.EventQuery(there))
}
