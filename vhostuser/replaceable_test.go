// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// keeper holds what a session was told last, with descriptors of its own, as another process does.
type keeper struct {
	tb    testing.TB
	mu    sync.Mutex
	bytes []byte
	fds   []*vhostuser.FD
	die   func(*vhostuser.Snapshot) bool // the session has ended at this one; nil: it hasn't
	dead  bool                           // nothing that it does counts any more
}

// keep is for Options.Keep.
func (k *keeper) keep(p *vhostuser.Snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return
	}
	k.dead = k.die != nil && k.die(p)
	k.drop()
	k.bytes = p.AppendTo(nil)
	if len(k.bytes) > vhostuser.MaxSnapshot() {
		k.tb.Errorf("a snapshot of %d bytes", len(k.bytes))
	}
	for _, fd := range p.FDs() {
		var own *vhostuser.FD
		if fd != nil {
			var err error
			if own, err = fd.Dup(); err != nil {
				k.tb.Error(err)
			}
		}
		k.fds = append(k.fds, own)
	}
}

// drop closes what is held.
func (k *keeper) drop() {
	for _, fd := range k.fds {
		_ = fd.Close()
	}
	k.fds = nil
}

// take gives what is held away.
func (k *keeper) take() *vhostuser.Snapshot {
	k.tb.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := vhostuser.ParseSnapshot(k.bytes, k.fds)
	if err != nil {
		k.tb.Fatal(err)
	}
	if again := p.AppendTo(nil); !bytes.Equal(again, k.bytes) {
		k.tb.Errorf("% x is written again as % x", k.bytes, again)
	}
	if !slices.Equal(p.FDs(), k.fds) {
		k.tb.Error("the descriptors come back in another order")
	}
	k.fds = nil
	return p
}

// replaceable is a front end whose back end dies and is replaced.
type replaceable struct {
	*Frontend
	keeper
	dev  *Tracking
	s    *vhostuser.Session
	sock *net.UnixConn // a second descriptor of the session's socket
	back *net.UnixConn // the session's own
	stop func()
	done chan error
}

func newReplaceable(tb testing.TB, queues int) *replaceable {
	front, back := Pair(tb)
	r := &replaceable{Frontend: NewFrontend(tb, front), keeper: keeper{tb: tb}}
	r.dev = NewTracking(NewDevice(tb, queues))
	r.sock = second(tb, back)
	r.back = back
	s, err := vhostuser.New(back, r.dev, vhostuser.Options{Keep: r.keep})
	if err != nil {
		tb.Fatal(err)
	}
	r.run(s)
	tb.Cleanup(func() { r.kill(); r.drop(); _ = r.sock.Close() })
	return r
}

// withMemory is one with two queues that have not started, whose front end has given memory.
func withMemory(tb testing.TB) (r *replaceable, qs []*Queue) {
	tb.Helper()
	r = newReplaceable(tb, 2)
	offered := r.Realize(2)
	r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	g, qs := guestWithQueues(tb)
	r.AddMemory(g)
	return r, qs
}

// second duplicates a socket.
func second(tb testing.TB, sock *net.UnixConn) *net.UnixConn {
	tb.Helper()
	file, err := sock.File()
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		tb.Fatal(err)
	}
	return c.(*net.UnixConn)
}

func (r *replaceable) run(s *vhostuser.Session) {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.s, r.done = s, make(chan error, 1)
	go func() { r.done <- s.Run(ctx) }()
}

// kill ends the session without a word to the front end.
func (r *replaceable) kill() {
	r.tb.Helper()
	r.stop()
	if err := <-r.done; err != nil && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, net.ErrClosed) {
		r.tb.Errorf("Run: %v", err)
	}
	r.done <- nil
}

// replace has another device go on.
func (r *replaceable) replace(change func(*vhostuser.Snapshot)) {
	r.tb.Helper()
	r.MustQuery(vhostuser.GetFeatures) // whatever was sent has been served and kept
	r.kill()
	r.revive(change)
}

// revive has another device go on after the session has ended.
func (r *replaceable) revive(change func(*vhostuser.Snapshot)) {
	r.tb.Helper()
	r.dev = NewTracking(NewDevice(r.tb, r.dev.Queues))
	p := r.take()
	if change != nil {
		change(p)
	}
	r.back = second(r.tb, r.sock)
	s, err := vhostuser.Restore(r.back, r.dev, vhostuser.Options{Keep: r.keep}, p)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.run(s)
}

func (r *replaceable) want(what string, calls ...string) {
	r.tb.Helper()
	r.MustQuery(vhostuser.GetFeatures)
	if got := r.dev.Calls(); !slices.Equal(got, calls) {
		r.tb.Errorf("%s: calls %q, want %q", what, got, calls)
	}
}
