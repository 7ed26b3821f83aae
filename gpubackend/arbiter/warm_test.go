// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// wantWarm has a VM say how many warm workers it wants, and returns how many it may have.
func (r *rig) wantWarm(c *link.Conn, want int, used time.Duration) int {
	r.Helper()
	q := link.Request{Kind: link.Tell, Figures: &link.Figures{},
		Warm: &link.Warm{Want: want, Used: uint64(used)}}
	if err := c.Send(&q); err != nil {
		r.Fatal(err)
	}
	for {
		var a link.Answer
		if _, err := c.Receive(&a, 0); err != nil {
			r.Fatal(err)
		}
		if a.Warm != nil && len(a.VMs) > 0 { // the answer; without VMs it is news
			return *a.Warm
		}
	}
}

// TestWarmWorkersAreBounded: 200 VMs that all want warm workers get DefaultWarm together. VMs that
// were used lately come first. When VMs leave, or want none, the others get theirs.
func TestWarmWorkersAreBounded(t *testing.T) {
	r := newRig(t, nil)
	const vms = 200
	now := Now()
	var conns []*link.Conn
	for i := range vms {
		_, c := r.join(fmt.Sprint("vm", i), nil)
		conns = append(conns, c)
		r.wantWarm(c, 2, 0)
	}
	granted := func() (sum int) {
		for _, v := range r.list() {
			sum += v.Warm
		}
		return sum
	}
	if n := granted(); n != DefaultWarm {
		t.Fatalf("%d are granted", n)
	}
	for _, i := range []int{0, vms / 2, vms - 1} {
		if n := r.wantWarm(conns[i], 1, now); n != 1 {
			t.Errorf("%d for a VM that was used just now", n)
		}
		if n := r.wantWarm(conns[i], 0, now); n != 0 {
			t.Errorf("%d for a VM that wants none", n)
		}
	}
	for _, c := range conns[:vms-DefaultWarm] {
		c.Close()
	}
	r.await("those that are left have them", func() bool {
		return len(r.list()) == DefaultWarm && granted() == DefaultWarm
	})
	_, other, _ := r.askJoin("other", gpus("gpu-2"), nil)
	if n := r.wantWarm(other, 3, 0); n != 3 {
		t.Errorf("%d of 3 on a GPU of its own", n)
	}
	if n := r.wantWarm(other, -5, 1<<62); n != 0 {
		t.Errorf("%d for a VM that wants -5, in the future", n)
	}
	if n := r.wantWarm(other, 1<<40, 1<<62); n != DefaultWarm {
		t.Errorf("%d for a VM that wants more than there are", n)
	}
}

// TestWarmWorkersOfSeveralGPUs: a VM has the same number on each of its GPUs: no more than other
// VMs leave it on any.
func TestWarmWorkersOfSeveralGPUs(t *testing.T) {
	r := newRig(t, nil)
	two := []link.GPU{{Name: "first"}, {Name: "second"}}
	now := Now()
	c := r.joinOn("both", 0, two, nil)
	if n := r.wantWarm(c, 2*DefaultWarm, now); n != DefaultWarm {
		t.Errorf("%d on GPUs of its own", n)
	}
	other := r.joinOn("other", 0, two[1:], nil)
	if n := r.wantWarm(other, DefaultWarm, now); n != DefaultWarm/2 {
		t.Errorf("%d on a GPU that another VM has, too", n)
	}
	if n := r.wantWarm(c, DefaultWarm, now); n != DefaultWarm/2 {
		t.Errorf("%d, as the first GPU has room for more", n)
	}
	third := r.joinOn("third", 0, two[:1], nil)
	if n := r.wantWarm(third, DefaultWarm-1, now+time.Hour); n != DefaultWarm/2 {
		t.Errorf("%d on the first GPU", n)
	}
	other.Close()
	third.Close()
	r.await("it has them again", func() bool {
		vms := r.list()
		return len(vms) == 1 && vms[0].Warm == DefaultWarm
	})
}
