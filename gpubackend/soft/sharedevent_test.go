// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/soft/sharedevent"
)

// twoEvents is an interprocess event in two devices, as two processes have it.
func twoEvents(t *testing.T) (one, other *Device, event, same gpubackend.Event) {
	t.Helper()
	one, other = newDevice(t, Options{}), newDevice(t, Options{})
	event, result := one.EventCreate(cudaabi.EventInterprocess | cudaabi.EventDisableTiming)
	ok(t, result)
	s, fd, result := one.ShareEvent(event)
	ok(t, result)
	defer unix.Close(fd)
	same, result = other.OpenEvent(s, fd)
	ok(t, result)
	return one, other, event, same
}

// TestEventPagesAreBounded: each is a file and a mapping, until nothing uses it.
func TestEventPagesAreBounded(t *testing.T) {
	d := newDevice(t, Options{})
	most := int(sharedevent.MaxEventPages())
	var events []gpubackend.Event
	for {
		e, result := d.EventCreate(cudaabi.EventInterprocess | cudaabi.EventDisableTiming)
		if result == gpubackend.OutOfMemory {
			break
		}
		ok(t, result)
		if events = append(events, e); len(events) > most {
			t.Fatalf("%d events", len(events))
		}
	}
	for _, e := range events {
		ok(t, d.EventDestroy(e))
	}
	ok(t, wait(t, func() gpubackend.Result {
		if _, result := d.EventCreate(cudaabi.EventInterprocess |
			cudaabi.EventDisableTiming); result != gpubackend.OutOfMemory {
			return result
		}
		return gpubackend.NotReady
	}))
}

func TestSharedEventOrders(t *testing.T) {
	one, other, event, same := twoEvents(t)
	ok(t, other.EventQuery(same)) // never recorded
	s := newStream(t, one, 1)
	a := alloc(t, other, 4096)
	for round := range uint64(50) {
		open := gate(t, one, s)
		ok(t, one.EventRecordWithFlags(event, s, 0))
		want(t, one.EventQuery(event), gpubackend.NotReady)
		want(t, other.EventQuery(same), gpubackend.NotReady)
		w := newStream(t, other, 1)
		ok(t, other.StreamWaitEvent(w, same, 0))
		ok(t, other.MemsetD32Async(a, round, 1024, w))
		want(t, other.StreamQuery(w), gpubackend.NotReady)
		open()
		ok(t, wait(t, func() gpubackend.Result { return other.StreamQuery(w) }))
		ok(t, other.EventQuery(same))
		ok(t, other.StreamDestroy(w))
		s, one, other, event, same = newStream(t, other, 1), other, one, same, event
		a = alloc(t, other, 4096)
	}
}

// TestSharedEventOfOneThatEnds: nobody waits for work that will never be done.
func TestSharedEventOfOneThatEnds(t *testing.T) {
	one, other, event, same := twoEvents(t)
	s := newStream(t, one, 1)
	gate(t, one, s)
	ok(t, one.EventRecordWithFlags(event, s, 0))
	w := newStream(t, other, 1)
	ok(t, other.StreamWaitEvent(w, same, 0))
	want(t, other.StreamQuery(w), gpubackend.NotReady)
	one.Close()
	ok(t, wait(t, func() gpubackend.Result { return other.StreamQuery(w) }))
	ok(t, other.EventDestroy(same))
}

func TestSharedEventIsChecked(t *testing.T) {
	d := newDevice(t, Options{})
	e, result := d.EventCreate(cudaabi.EventInterprocess | cudaabi.EventDisableTiming)
	ok(t, result)
	want(t, d.checkNode(&gpubackend.Node{Type: gpubackend.NodeEventRecord, Event: e}),
		gpubackend.NotSupported)
	_, _, result = d.ShareEvent(newEvent(t, d))
	want(t, result, gpubackend.InvalidHandle)
	unsealed := func(name string, size uint64) (int, error) {
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, int64(size))
		}
		return fd, err
	}
	for _, c := range []struct {
		file func(string, uint64) (int, error)
		size int
	}{{memfd.New, 0}, {memfd.New, 2 * os.Getpagesize()}, {unsealed, os.Getpagesize()}} {
		fd, err := c.file("test", uint64(c.size))
		if err != nil {
			t.Fatal(err)
		}
		_, result = d.OpenEvent(gpubackend.SharedEvent{}, fd)
		want(t, result, gpubackend.InvalidHandle)
		unix.Close(fd)
	}
}
