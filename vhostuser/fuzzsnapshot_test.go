// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// FuzzSnapshot: what a device process finds of the one before is refused, and nothing is taken; or
// it is read in the only way in which it can be written, and a session that has that state keeps
// its promises. An input is the bytes, and which descriptors are there.
func FuzzSnapshot(f *testing.F) {
	r, qs := withMemory(f)
	r.Start(qs[0])
	r.MustQuery(vhostuser.GetFeatures)
	good := r.take()
	f.Cleanup(good.Close)
	kinds := good.FDs()
	there := func(fds []*vhostuser.FD) (b []byte) {
		for i, fd := range fds {
			if fd == nil {
				i = len(kinds)
			}
			b = append(b, byte(i))
		}
		return b
	}
	f.Add(good.AppendTo(nil), there(kinds))
	f.Add(good.AppendTo(nil), there(kinds[1:]))
	f.Add(good.AppendTo(nil)[:40], []byte{})
	older := *good // of a process that had no outbox
	older.Outbox = nil
	f.Add(older.AppendTo(nil), there(older.FDs()))
	good.Pending = &vhostuser.Message{Request: vhostuser.AddMemReg, Flags: vhostuser.FlagVersion,
		Payload: []byte("payload"), FDs: []*vhostuser.FD{good.Memory[0].FD}}
	f.Add(good.AppendTo(nil), there(good.FDs()))
	good.Unread = true
	f.Add(good.AppendTo(nil), there(good.FDs()))
	good.Pending = nil
	f.Add(good.AppendTo(nil), there(kinds))
	good.Unread = false
	f.Fuzz(func(t *testing.T, b, there []byte) {
		if len(there) > 512 {
			return
		}
		var fds []*vhostuser.FD
		for _, i := range there {
			fds = append(fds, append(slices.Clone(kinds), nil)[int(i)%(len(kinds)+1)])
		}
		p, err := vhostuser.ParseSnapshot(b, fds)
		if err != nil {
			if !errors.Is(err, vhostuser.ErrSnapshot) || p != nil {
				t.Fatalf("%+v, %v", p, err)
			}
			return
		}
		if !bytes.Equal(p.AppendTo(nil), b) || !slices.Equal(p.FDs(), fds) {
			t.Fatalf("read as %+v", p)
		}
		restores(t, b, fds)
	})
}

// restores has a session go on from a snapshot, with descriptors of its own, until the front end
// is gone.
func restores(t *testing.T, b []byte, fds []*vhostuser.FD) {
	t.Helper()
	own := make([]*vhostuser.FD, len(fds))
	for i, fd := range fds {
		if fd == nil {
			continue
		}
		var err error
		if own[i], err = fd.Dup(); err != nil {
			t.Fatal(err)
		}
	}
	p, err := vhostuser.ParseSnapshot(b, own)
	if err != nil {
		t.Fatal(err)
	}
	dev := NewTracking(NewDevice(t, 2))
	front, back := Pair(t)
	s, err := vhostuser.Restore(back, dev, vhostuser.Options{}, p)
	if err != nil {
		defer p.Close()
		if !errors.Is(err, vhostuser.ErrSnapshot) || len(dev.Calls()) != 0 {
			t.Fatalf("%v; the device heard %q", err, dev.Calls())
		}
		return
	}
	_ = front.Close()
	_ = s.Run(context.Background()) // how it ends is the front end's affair
}
