// SPDX-License-Identifier: Apache-2.0

package movers

import (
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TakeOver makes the mover of the previous device process the VM's mover: workers that are taken
// over have connections to it. It doesn't wait for the mover's answer; workers that are connected
// meanwhile get their connection after that.
func (s *Movers) TakeOver(proc child.Process, c *handover.Conn) {
	m := &Mover{proc: proc, ready: make(chan struct{}), exited: make(chan struct{})}
	m.conn = child.New(c, s.config.Answer, child.RefuseOffer,
		func(read func()) { s.config.Go("a mover's messages", read) })
	s.mu.Lock()
	s.current = m
	s.mu.Unlock()
	s.config.Go("taking over the mover", func() {
		defer close(m.ready)
		if _, m.failure = m.conn.TakeOver(s.config.Exit); m.failure != nil {
			s.config.Log.WithError(m.failure).Warn("the mover isn't taken over: it ends")
			m.Kill()
		}
	})
	s.config.Go("the mover's end", func() { s.awaitEnd(m) })
}
