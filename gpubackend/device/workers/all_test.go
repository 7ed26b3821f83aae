// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// one is a VM with one worker.
func one(w *Worker) All { return func() []*Worker { return []*Worker{w} } }

// TestAllAreTold: each worker hears what all are told before the next thing, and none is killed.
func TestAllAreTold(t *testing.T) {
	heard := make(chan handover.Kind, 32)
	r := newRig(t, func(c *childtest.Child) {
		for {
			kind, err := c.Receive()
			if err != nil {
				return
			}
			heard <- kind
			if a := childtest.Answers[kind]; a != "" {
				_ = c.Conn.Send(&handover.Message{Kind: a}, nil)
			}
		}
	})
	r.config.Limits.Answer = soon
	list := []*Worker{r.worker(), r.worker()}
	all := All(func() []*Worker { return list })
	for kind, tell := range map[handover.Kind]func(){
		handover.KindPolicy: func() { all.Policy(handover.Policy{SoftWorkers: 4}) },
		handover.KindGoOn:   all.GoOn,
		handover.KindMemory: func() {
			all.Memory(memory)
		},
		handover.KindLog: func() {
			all.Log(func() (*handover.Message, []int) {
				return &handover.Message{Kind: handover.KindLog}, nil
			})
		},
	} {
		tell()
		for range list {
			select {
			case got := <-heard:
				if got != kind {
					t.Fatalf("one heard %q, want %q", got, kind)
				}
			case <-time.After(soon):
				t.Fatalf("nobody heard %q; the log says %s", kind, r.said())
			}
		}
	}
	if got := all.Suspended(); len(got) != 2 || got[0] != list[0] || got[1] != list[1] {
		t.Errorf("%v of %v", got, list)
	}
	for _, w := range list {
		if w.Killed() {
			t.Error("one that does what it is told is killed")
		}
		w.Kill()
		r.mustEnd(w)
	}
}
