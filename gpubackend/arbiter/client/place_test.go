// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// TestPlaceIsTold: an arbiter is told what changed while the VM joined, and what it has ordered
// ends with its connection.
func TestPlaceIsTold(t *testing.T) {
	l, path := listen(t)
	var out atomic.Bool
	told := make(chan *link.Place, 2)
	go func() {
		u, err := l.AcceptUnix()
		if err != nil {
			return
		}
		conn := link.New(u)
		defer conn.Close()
		for i := range 2 {
			var r link.Request
			fds, err := conn.Receive(&r, 3)
			link.CloseFiles(fds)
			if err != nil {
				return
			}
			told <- r.Place
			if i == 0 {
				out.Store(true)
				_ = conn.Send(&link.Answer{Version: link.Version})
			}
		}
		_ = conn.Send(&link.Answer{Version: link.Version, Order: &link.Order{Serial: 7}})
	}()
	orders := make(chan link.Order, 2)
	c := config(t, path, "a")
	c.Place = func() *link.Place { return &link.Place{Out: out.Load()} }
	c.Order = func(o *link.Order) { orders <- *o }
	x, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, want := range []bool{false, true} {
		select {
		case p := <-told:
			if p == nil || p.Out != want {
				t.Errorf("told %+v, want out %t", p, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing is told")
		}
	}
	for _, want := range []link.Order{{Serial: 7}, {}} {
		select {
		case o := <-orders:
			if o != want {
				t.Errorf("ordered %+v, want %+v", o, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%+v isn't ordered", want)
		}
	}
}
