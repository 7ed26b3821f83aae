// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// slowMover starts movers that are ready when the test says so.
type slowMover struct {
	stubs
	asked, ready chan struct{}
}

func (s *slowMover) Mover(control *os.File) (Process, error) {
	return s.start(control, func(x *stub) {
		if _, err := x.Receive(); err != nil {
			return
		}
		close(s.asked)
		<-s.ready
		_ = x.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
		polite(x)
	})
}

// TestFrontEndDoesNotWaitForTheMover: its messages are served while a mover starts for a copy.
func TestFrontEndDoesNotWaitForTheMover(t *testing.T) {
	s := &slowMover{asked: make(chan struct{}), ready: make(chan struct{})}
	v := greetedVM(t, s, Timeouts{})
	v.open(0)
	v.askMover(0)
	<-s.asked
	served := make(chan struct{})
	go func() {
		select {
		case <-served:
		case <-time.After(soon):
			t.Error("the front end waits for the mover")
		}
		close(s.ready)
	}()
	if _, err := v.front.Config(64); err != nil {
		t.Fatal(err)
	}
	v.front.MustSend(vhostuser.SetVringCall, vhostusertest.Word(1), vhostusertest.Eventfd(t))
	v.front.Stop(v.queues[2])
	v.front.Start(v.queues[2])
	close(served)
	v.closeChannel(0)
}
