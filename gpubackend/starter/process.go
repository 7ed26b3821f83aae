// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a child.
type Process struct {
	number uint32
	pid    int
	ended  chan struct{}   // closed when the starter process says so
	gone   <-chan struct{} // closed when the starter process is gone
	how    error           // set before ended is closed

	mu sync.Mutex
	fd int // names it; -1 once it has ended
}

func newProcess(number uint32, pid, fd int, gone <-chan struct{}) *Process {
	return &Process{number: number, pid: pid, fd: fd, ended: make(chan struct{}), gone: gone}
}

// end notes how it ended, and by which signal; 0: by none.
func (p *Process) end(how string, by syscall.Signal) {
	if how != "" {
		p.how = errors.New(how)
	}
	if p.how != nil && by != 0 {
		p.how = signaled{p.how, by}
	}
	close(p.ended)
}

// Number tells it from all others that the starter process has ever started.
func (p *Process) Number() uint32 { return p.number }

// PID is its number on the host, by which the GPU's driver knows it.
func (p *Process) PID() int { return p.pid }

// Kill kills it.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		_ = unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0)
	}
}

// Wait returns when it is gone, and says how it ended. It is called once. Whatever the starter
// process says, Wait asks the kernel whether it is gone: only then can it no longer touch the
// guest's memory.
func (p *Process) Wait() error {
	how := errGone
	select {
	case <-p.ended:
		how = p.how
	case <-p.gone:
	}
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Ppoll(fds, nil, nil)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.fd)
	p.fd = -1
	return how
}
