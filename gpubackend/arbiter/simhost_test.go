// SPDX-License-Identifier: Apache-2.0

package arbiter_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// simulatedArbiter is an arbiter's process.
type simulatedArbiter struct {
	*arbiter.Arbiter
	since  time.Time
	thaws  atomic.Int64 // when it goes on after a stop: nanoseconds since 1970
	serves sync.WaitGroup

	mu    sync.Mutex
	conns []*socket
	gone  bool
}

func startArbiter(t *testing.T) *simulatedArbiter {
	s := &simulatedArbiter{since: time.Now()}
	var err error
	looks := 0
	s.Arbiter, err = arbiter.Simulated(arbiter.Config{Log: quiet()}, s.poll,
		func() turns.Time {
			if looks++; looks%32 == 0 {
				time.Sleep(50 * time.Microsecond) // no time would pass while the loop polls
			}
			return arbiter.Now()
		})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// look is the time after which a simulated wait looks at the real descriptors again.
const look = 2 * time.Millisecond

// poll is unix.Ppoll in simulated time.
func (s *simulatedArbiter) poll(
	fds []unix.PollFd, most *unix.Timespec, _ *unix.Sigset_t,
) (n int, err error) {
	for end := time.Now().Add(time.Duration(most.Nano())); ; {
		if thaws := time.Unix(0, s.thaws.Load()); time.Now().Before(thaws) {
			time.Sleep(time.Until(thaws))
		}
		left := time.Until(end)
		if n, err = unix.Poll(fds, 0); n != 0 || err != nil || left <= 0 {
			return n, err
		}
		time.Sleep(min(left, look))
	}
}

// take takes a connection, as Serve does.
func (s *simulatedArbiter) take(n *network) (link.Socket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, unix.ECONNREFUSED
	}
	a, b := connect(n.delay)
	s.conns = append(s.conns, a)
	s.serves.Go(func() {
		c := link.New(b)
		defer c.Close()
		s.ServeOne(c)
	})
	return a, nil
}

// frozen says whether it is stopped.
func (s *simulatedArbiter) frozen() bool { return time.Now().UnixNano() < s.thaws.Load() }

// stop stops it for a while, as SIGSTOP does.
func (s *simulatedArbiter) stop(d time.Duration) {
	s.thaws.Store(time.Now().Add(d).UnixNano())
}

// kill ends all connections at once, then the process.
func (s *simulatedArbiter) kill() {
	s.mu.Lock()
	s.gone = true
	conns := s.conns
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	s.thaws.Store(0)
	s.Close()
	s.serves.Wait()
}
