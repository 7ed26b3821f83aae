// SPDX-License-Identifier: Apache-2.0

package movers

import (
	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Tell makes the mover use the current memory, and end the copies of workers that are gone. A mover
// that doesn't answer is ended.
//
// memory is called in the order in which the mover is told; its files must stay open until then.
func (s *Movers) Tell(memory Message) {
	s.telling.Lock()
	defer s.telling.Unlock()
	m := s.Current()
	if m == nil {
		return
	}
	message, files := memory()
	s.ask(m, message, files, handover.KindDone, "a process did not take the new memory")
}

// TellLog makes the mover mark its writes in another log.
func (s *Movers) TellLog(log Message) {
	if m := s.Current(); m != nil && !m.killed.Load() {
		message, files := log()
		s.ask(m, message, files, handover.KindLogged,
			"a process did not take the log of dirty pages")
	}
}

// ask makes a mover obey a request, or ends it.
func (s *Movers) ask(
	m *Mover, message *handover.Message, files []int, want handover.Kind, failure string,
) {
	if m.killed.Load() {
		s.End(m)
		return
	}
	if err := m.conn.Request(message, files, want, s.config.Answer); err != nil {
		s.config.Log.WithError(err).Warn(failure)
		s.End(m)
	}
}

// BeginStop makes the mover serve nobody any more. What it returns stops it in an orderly way, and
// waits for that; nil: there is none, or it is stopping already.
//
// It stays the mover until it has ended, so that the VM never has two.
func (s *Movers) BeginStop() (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.current
	if m == nil || m.stopping {
		return nil
	}
	m.stopping = true
	return func() {
		<-m.ready
		if !m.killed.Load() {
			_ = m.conn.Request(&handover.Message{Kind: handover.KindStop}, nil,
				handover.KindStopped, s.config.Stop)
		}
		s.End(m)
	}
}

// EndLeft ends the processes that the previous device process has left. Their end is awaited as
// that of a mover.
func (s *Movers) EndLeft(left []child.Process) {
	n := len(left)
	if n == 0 {
		close(s.leftGone)
	}
	movers := make([]*Mover, n)
	for i, p := range left {
		movers[i] = &Mover{proc: p, exited: make(chan struct{}), left: true}
	}
	s.mu.Lock()
	s.linger = append(s.linger, movers...)
	s.mu.Unlock()
	for _, m := range movers {
		m.Kill()
		s.config.Go("the end of a process of the device process before", func() {
			_ = m.proc.Wait()
			close(m.exited)
			s.endLinger(m)
			s.config.Ended()
			s.mu.Lock()
			defer s.mu.Unlock()
			if n--; n == 0 {
				close(s.leftGone)
			}
		})
	}
}

// AwaitLeft says whether the processes of the device process before this one are gone. It doesn't
// wait forever for one that doesn't end.
func (s *Movers) AwaitLeft(quit <-chan struct{}) bool {
	if await.Closed(s.leftGone) {
		return true
	}
	select {
	case <-quit:
		return false
	default:
		return await.Within(s.config.Exit, s.leftGone)
	}
}
